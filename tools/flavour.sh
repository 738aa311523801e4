# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The kernels everything is built for and run on, in one vocabulary: "stock" is the
# distribution's, "debug" our own of the same source, with checks of all kinds; "kcsan"
# one more, by hand, which looks for data races instead; "uml" is the kernel as a process
# of this machine, by hand, too, for its speed. Sourced.

# flavour NAME: sets FL_KDIR (for make -C), FL_MAKE (its arguments) and
# FL_OUT (where products go), making the kernel first where needed.
# shellcheck disable=SC2034 # used by those who source this
flavour() {
	case $1 in
	stock)
		FL_KDIR=$("$TOP/tools/kernel" source)
		FL_MAKE=(CC=x86_64-linux-gnu-gcc-14
			"KERNELRELEASE=$("$TOP/tools/kernel" version)")
		;;
	debug)
		FL_KDIR=$("$TOP/tools/kernel-debug")
		FL_MAKE=(LLVM=-19)
		;;
	kcsan)
		FL_KDIR=$("$TOP/tools/kernel-debug" kcsan)
		# The kernel's makefiles have these for C only (scripts/Makefile.kcsan). Its own
		# Rust code is watched where it is generic or inlined into ours.
		FL_MAKE=(LLVM=-19 "KRUSTFLAGS=-Zsanitizer=thread -Cllvm-args=-tsan-distinguish-volatile=1 \
-Cllvm-args=-tsan-compound-read-before-write=1 -Cllvm-args=-tsan-instrument-func-entry-exit=0")
		;;
	uml)
		FL_KDIR=$("$TOP/tools/kernel-debug" uml)
		# Its loader of modules knows no global offset table.
		FL_MAKE=(ARCH=um CC=x86_64-linux-gnu-gcc-14 KRUSTFLAGS=-Crelocation-model=static)
		;;
	*) die "no such kernel: '$1' (stock, debug, kcsan, uml)" ;;
	esac
	FL_OUT=$TOP/build/$1
}
