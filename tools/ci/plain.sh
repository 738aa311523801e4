# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# A plain copy of the checkout, with the module built by the kernel's own command, for any
# supported series. Sourced by stages, after lib.sh.

. "$TOP/tools/flavour.sh"

# plain_for SERIES|own LOG: in build/plain-SERIES; own is the kernel that all is tested on. The
# caller sends its output to LOG. Where an earlier run built it, only what has changed since is
# built.
plain_for() {
	local copy=$TOP/build/plain-$1
	[ "$1" = own ] || export RSIW_KERNEL=$1
	flavour stock
	[ "$(cat "$copy/.kernel" 2>/dev/null)" = "$FL_KDIR" ] || in_root rm -rf "$copy"
	mkdir -p "$copy"
	echo "$FL_KDIR" >"$copy/.kernel"
	files Kbuild Makefile rust rsiw tests tools | in_root rsync -a --files-from=- ./ "$copy/"
	if in_root make -s -C "$FL_KDIR" "M=$copy" modules -j"$(nproc)" 2>&1 &&
		[ -s "$copy/rsiw.ko" ] &&
		! grep -vE 'BTF|compiler differs' "$2" | grep -q 'warning'; then
		return
	fi
	# A warning would not be repeated.
	in_root rm -rf "$copy"
	return 1
}

# other_series: the supported series whose packages are complete, without the one that all is
# tested on, oldest first.
other_series() {
	local list own
	list=$("$TOP/tools/kernel" list) || return
	own=$("$TOP/tools/kernel" version | cut -d. -f1-2)
	grep -v 'not signed' <<<"$list" | cut -d. -f1-2 | sort -uV | grep -vx "$own"
	return 0
}
