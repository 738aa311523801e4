# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Helpers for stages: a stage makes checks, which are counted, and ends with `finish`, whose last line is
# "N passed, N failed, N skipped".

# For a stage, shellcheck would resolve this path from the stage's directory, and find this file again.
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

set +e
cd "$TOP" || exit

PASSED=0 FAILED=0 SKIPPED=0
# Jobs that pass only when they run once more: so many of them fail a run.
# shellcheck disable=SC2034 # used by ci/run
MOST_UNSTEADY=3
# Whether all tests run (make test-all), not the gate's selection.
in_all() { [ "${RSIW_CI:-}" = all ]; }

# check NAME COMMAND...
check() {
	local name=$1
	shift
	if "$@"; then
		PASSED=$((PASSED + 1))
		echo "ok   $name"
	else
		FAILED=$((FAILED + 1))
		echo "FAIL $name"
	fi
}

skip() {
	SKIPPED=$((SKIPPED + 1))
	echo "skip $1: $2"
}

# each_once KEY COMMAND... -- FILE...: a command that judges each file by itself, and of nothing else than KEY names
# (programs, files that all of them read). It judges those files only that it has not found good before: what it found
# is kept, by hashes of the key and of the file's name and content.
each_once() {
	local key command=() file mark marks=() unjudged=()
	key=$1
	shift
	while [ "$1" != -- ]; do command+=("$1"); shift; done
	shift
	key=$(key_of "$key" "${command[@]}")
	mkdir -p "$CACHE/checked"
	for file; do
		mark=$CACHE/checked/$(key_of "$key" "$file" "$(sha256sum <"$file")")
		[ ! -e "$mark" ] || { touch "$mark"; continue; }
		unjudged+=("$file") marks+=("$mark")
	done
	echo "${#unjudged[@]} of $# files are new or have changed"
	[ ${#unjudged[@]} != 0 ] || return 0
	"${command[@]}" "${unjudged[@]}" || return
	touch "${marks[@]}"
	find "$CACHE/checked" -type f -mtime +30 -delete
}

# add_counts FILE: add the counts from the last line of a tool's output, "N passed, ...". A tool that did not
# print such a line has broken off, which is a failure.
add_counts() {
	local line
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$1" | tail -n 1)
	if [ -z "$line" ]; then
		check "what $(basename "$1") is of has come to its end" false
		tail -n 5 "$1" | sed 's/^/     | /'
		return
	fi
	# shellcheck disable=SC2046 # the digits are words
	set -- $(tr -dc '0-9 ' <<<"$line")
	PASSED=$((PASSED + $1)) FAILED=$((FAILED + $2)) SKIPPED=$((SKIPPED + $3))
}

# retries LOG...: the sum of the runner's counts of retried tests: "retried 3 (siw-crc 2, ...)".
retries() {
	cat "$@" 2>/dev/null | sed -n 's/^retried: [0-9]* (\(.*\))$/\1/p' | tr , '\n' |
		awk 'NF == 2 { count[$1] += $2 } END { for (name in count) print name, count[name] }' | sort |
		awk '{ text = text (NR > 1 ? ", " : "") $0; all += $2 }
			END { if (all) print "retried " all " (" text ")" }'
}

# vm_jobs LOG VM-RUN-ARGUMENT...: run jobs in guests, a failed one once more alone, and add their counts. A runner
# that fails without a failed test is one failure.
vm_jobs() {
	local log=$1 before=$FAILED status
	shift
	"$TOP/tools/vm-run" test --again --together "$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	add_counts "$log"
	[ "$status" = 0 ] || [ "$FAILED" != "$before" ] || check "the runner ends well" false
}

finish() {
	echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
	[ "$FAILED" = 0 ]
	exit
}

in_root() { "$TOP/tools/in-root" "$@"; }

# files PATTERN...: files of the project: tracked ones, and new ones that are not ignored.
files() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do
	[ ! -f "$f" ] || echo "$f"
done; }
