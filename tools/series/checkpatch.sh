# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# For tools that make series of patches. Sourced, never run.

# checkpatch SOURCE OPTION... PATCH: with the checkpatch of a kernel's source. A patch that it has accepted once is not
# judged again: the key is what it judges by, and of the patch what it reads, as a hash and a date are new in each.
checkpatch() {
	local source=$1 mark version
	shift
	version=$(sha256sum "$source"/scripts/{checkpatch.pl,spelling.txt,const_structs.checkpatch})
	mark=$CACHE/checked/$(key_of "$version" "${@:1:$#-1}" "$(sed '/^From [0-9a-f]/d; /^Date: /d' "${@: -1}")")
	if [ -e "$mark" ]; then
		touch "$mark"
		return
	fi
	"$TOP/tools/in-root" perl "$source/scripts/checkpatch.pl" "$@" || die "checkpatch does not accept the series"
	mkdir -p "$CACHE/checked"
	touch "$mark"
}
