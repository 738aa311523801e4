# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The names of kernels, and all that differs between them in a build. What differs between their guests is
# in vm/arch.py. Sourced.
#
#   stock      the distribution's kernel for this machine's architecture: amd64 or arm64
#   FLAVOUR    one of the distribution's flavours: amd64, cloud-amd64, rt-amd64, arm64, arm64-16k, ...
#   FLAVOUR-VERSION   the same, of another series or release than the newest: amd64-7.2, rt-amd64-7.2.12
#   RELEASE    the same, as uname -r has it: 7.3.4+deb13-cloud-amd64
#   SUITE, SUITE-...   the same of Debian testing or unstable, forky or sid: forky, sid-cloud-amd64, forky-$(uname -r)
#   debug      a kernel of the same source with checks of all kinds (kernel-configs/)
#   kcsan      a kernel that looks for data races
#   uml        a kernel that is a process of this machine, to measure at its speed

# The architecture of this machine, as Debian calls it.
case $(uname -m) in
x86_64) MACHINE_ARCH=amd64 ;;
aarch64) MACHINE_ARCH=arm64 ;;
*) die "tools for $(uname -m) do not exist: amd64 or arm64 is needed" ;;
esac

# amd64_only WHAT: ends a tool on other machines.
amd64_only() { [ "$MACHINE_ARCH" = amd64 ] || die "only an amd64 machine has $1"; }

# split_name NAME: sets FL_SUITE, FL_FLAVOUR, FL_VERSION (empty: the newest, or RSIW_KERNEL) and FL_ARCH of a
# distribution's kernel; fails for other names.
# shellcheck disable=SC2034 # used by scripts that source this
split_name() {
	FL_SUITE=trixie FL_FLAVOUR=$1 FL_VERSION=
	if [[ $1 =~ ^(forky|sid)(-(.+))?$ ]]; then
		FL_SUITE=${BASH_REMATCH[1]} FL_FLAVOUR=${BASH_REMATCH[3]:-stock}
	elif [[ $1 = *+deb14-* ]]; then
		FL_SUITE=forky
	fi
	[ "$FL_FLAVOUR" != stock ] || FL_FLAVOUR=$MACHINE_ARCH
	if [[ $FL_FLAVOUR =~ ^(.+)-([0-9]+\.[0-9].*)$ ]]; then
		FL_FLAVOUR=${BASH_REMATCH[1]} FL_VERSION=${BASH_REMATCH[2]}
	elif [[ $FL_FLAVOUR =~ ^([0-9.]+\+deb[0-9]+)-(.+)$ ]]; then
		FL_FLAVOUR=${BASH_REMATCH[2]} FL_VERSION=${BASH_REMATCH[1]}
	fi
	[ -n "$FL_VERSION" ] || FL_VERSION=${RSIW_KERNEL:-}
	FL_ARCH=$(arch_of "$FL_FLAVOUR") || return
	[ "$FL_ARCH" != amd64 ] || amd64_only "a compiler for the $FL_FLAVOUR kernel"
	[ "$FL_SUITE" = trixie ] || [ "$FL_ARCH" = "$MACHINE_ARCH" ] ||
		die "$1: of $FL_SUITE there are only kernels of this machine's architecture"
}

# arch_of FLAVOUR: its architecture; fails for what is not a flavour.
arch_of() {
	case $1 in
	amd64 | *-amd64) echo amd64 ;;
	arm64 | arm64-16k | *-arm64 | *-arm64-16k) echo arm64 ;;
	*) return 1 ;;
	esac
}

# flavours_of ARCH: all flavours that the distribution has of it. The first is the plain one.
flavours_of() {
	case $1 in
	amd64) echo amd64 cloud-amd64 rt-amd64 ;;
	arm64) echo arm64 arm64-16k cloud-arm64 rt-arm64 ;;
	esac
}

# other_flavours: those that CI tests on this machine beside the plain one of its architecture. An amd64
# machine emulates arm64, with pages of either size; an arm64 machine has no amd64 guests.
other_flavours() {
	local plain others
	read -r plain others <<<"$(flavours_of "$MACHINE_ARCH")"
	[ "$plain" != amd64 ] || others+=" arm64 arm64-16k"
	echo "$others"
}

# build_args ARCH CONFIG: what the kernel's build system is told, a word a line. The compiler is the
# distribution's, which the kernel's configuration CONFIG names. COMPAT is for the 32-bit vDSO, without which the
# configuration would differ from the distribution's.
build_args() {
	local cc
	cc=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\([^ ]*\) .*/\1/p' "$2")
	[ -n "$cc" ] || die "$2 does not name a compiler"
	case $1 in
	amd64) echo "CC=$cc" ;;
	arm64) printf '%s\n' ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- "CC=$cc" \
		HOSTCC=gcc CROSS_COMPILE_COMPAT=arm-linux-gnueabihf- "CC_COMPAT=arm-linux-gnueabihf-gcc-${cc##*-}" ;;
	esac
}

# triplet_of ARCH: how the names of its compiler and binutils begin.
triplet_of() {
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	esac
}

# flavour NAME: sets FL_KDIR (for make -C), FL_MAKE (its arguments), FL_ARCH and FL_OUT (where products go),
# making the kernel first where needed. From then on in-root is in the build root of the kernel's release of Debian.
# shellcheck disable=SC2034 # used by scripts that source this
flavour() {
	FL_ARCH=$MACHINE_ARCH FL_SUITE=trixie
	case $1 in
	debug)
		FL_KDIR=$("$TOP/tools/kernel-debug")
		FL_MAKE=(LLVM=-19)
		;;
	kcsan)
		FL_KDIR=$("$TOP/tools/kernel-debug" kcsan)
		# scripts/Makefile.kcsan has these flags for C only. So KCSAN watches the module's Rust code, and
		# the kernel's Rust code only where it is generic or inlined into the module.
		FL_MAKE=(LLVM=-19 "KRUSTFLAGS=-Zsanitizer=thread -Cllvm-args=-tsan-distinguish-volatile=1 \
-Cllvm-args=-tsan-compound-read-before-write=1 -Cllvm-args=-tsan-instrument-func-entry-exit=0")
		;;
	uml)
		FL_KDIR=$("$TOP/tools/kernel-debug" uml)
		# The module loader of user-mode Linux does not handle relocations to a global offset table.
		FL_MAKE=(ARCH=um CC=x86_64-linux-gnu-gcc-14 KRUSTFLAGS=-Crelocation-model=static)
		;;
	*)
		split_name "$1" || die "no such kernel: '$1' (tools/flavour.sh has the names)"
		FL_KDIR=$("$TOP/tools/kernel" tree "$1")
		mapfile -t FL_MAKE < <(build_args "$FL_ARCH" "$FL_KDIR/.config")
		FL_MAKE+=("KERNELRELEASE=$("$TOP/tools/kernel" version "$1")")
		;;
	esac
	export RSIW_SUITE=$FL_SUITE
	FL_OUT=$TOP/build/$1
}
