# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module in a plain copy of the checkout by the kernel's own command (make -C ... M=...), for any
# supported series. Stages source this after lib.sh.

. "$TOP/tools/flavour.sh"

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
	if in_root make -s -C "$FL_KDIR" "M=$copy" modules -j"$(nproc)" 2>&1 &&
		[ -s "$copy/rsiw.ko" ] &&
		! grep -vE 'BTF|compiler differs' "$2" | grep -q 'warning'; then
		return
	fi
	# An incremental build would not repeat the warning.
	in_root rm -rf "$copy"
	return 1
}

# other_series: the supported series whose packages are complete, oldest first, without that of the kernel
# that the tests run on.
other_series() {
	local list own
	list=$("$TOP/tools/kernel" list) || return
	own=$("$TOP/tools/kernel" version | cut -d. -f1-2)
	grep -v 'not signed' <<<"$list" | cut -d. -f1-2 | sort -uV | grep -vx "$own"
	return 0
}
