# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The two kernels everything is built for and run on, in one vocabulary:
# "stock" is the distribution's, "debug" our own of the same source. Sourced.

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
	*) die "no such kernel: '$1' (stock, debug)" ;;
	esac
	FL_OUT=$TOP/build/$1
}
