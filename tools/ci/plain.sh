# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# The kernels that trixie-backports has now, and a build of the module for them in a plain copy of the checkout
# by the kernel's own command (make -C ... M=...). Stages source this after lib.sh.
#
# A kernel that is not there is skipped. A mirror that does not answer is a failure: nobody knows what was
# left out.

. "$TOP/tools/flavour.sh"

# no_warning LOG: whether a build has warned of nothing in the sources.
no_warning() { ! grep -vE 'BTF|compiler differs' "$1" | grep -q warning; }

# plain_for SERIES|own LOG: build the module in build/plain-SERIES, anew only what has changed since an
# earlier run; own is the kernel that the tests run on. The caller redirects the output to LOG, where this
# function looks for warnings.
plain_for() {
	local copy=$TOP/build/plain-$1
	[ "$1" = own ] || export RSIW_KERNEL=$1
	flavour stock
	[ "$(cat "$copy/.kernel" 2>/dev/null)" = "$FL_KDIR" ] || in_root rm -rf "$copy"
	mkdir -p "$copy"
	echo "$FL_KDIR" >"$copy/.kernel"
	files Kbuild Makefile VERSION rust rsiw tests tools | in_root rsync -a --files-from=- ./ "$copy/"
	in_root make -s -C "$FL_KDIR" "M=$copy" modules -j"$(nproc)" 2>&1 && [ -s "$copy/rsiw.ko" ] && no_warning "$2" &&
		return
	# An incremental build would not repeat the warning.
	in_root rm -rf "$copy"
	return 1
}

# complete KERNEL WHAT: whether trixie-backports (forky, sid) has the kernel, with all its packages, so that WHAT can be
# tested. A flavour's packages may come days after another's.
complete() {
	"$TOP/tools/kernel" version "$1" >/dev/null
	case $? in
	0) return 0 ;;
	3) skip "$2" "Debian has no complete $1 kernel now" ;;
	*) check "$2: the $1 kernel is looked for in Debian" false ;;
	esac
	return 1
}

# find_others WHAT: sets others to the supported series whose packages are complete, oldest first, without that of
# the kernel that the tests run on. Without any, WHAT is skipped.
find_others() {
	local list own
	others=()
	if ! list=$("$TOP/tools/kernel" list) || ! own=$("$TOP/tools/kernel" version | cut -d. -f1-2); then
		check "$1: trixie-backports is asked for its kernels" false
		return
	fi
	mapfile -t others < <(grep -v 'not signed' <<<"$list" | cut -d. -f1-2 | sort -uV | grep -vx "$own")
	[ ${#others[@]} != 0 ] || skip "$1" "only the newest series is complete"
}

# find_kernels: sets kernels to those of the distribution's other flavours, the oldest of the range, those of Debian
# testing and unstable, and "bookworm", which is not a kernel: Debian 12's userspace. Two kernels joined by a comma are host A's and host
# B's: pages of 16 KiB meet the plain kernel's of 4 KiB. FLAVOURS="rt-amd64 arm64" names some of them.
# shellcheck disable=SC2034 # used by the stages that source this
find_kernels() {
	local flavour
	if [ -n "${FLAVOURS:-}" ]; then
		read -ra kernels <<<"$FLAVOURS"
		return
	fi
	find_others "the oldest kernel"
	kernels=("${others[@]/#/$MACHINE_ARCH-}" forky sid bookworm)
	for flavour in $(other_flavours); do
		[[ $flavour != *-16k ]] || flavour+=,$MACHINE_ARCH
		kernels+=("$flavour")
	done
}
