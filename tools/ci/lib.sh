# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What a stage is made of: checks that are counted. A stage ends with
# `finish`, whose last line is "N passed, N failed, N skipped".

# Its checker would take this path from the stage's place and find this file.
# shellcheck source=/dev/null
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

set +e
cd "$TOP" || exit

PASSED=0 FAILED=0 SKIPPED=0
# A stage by itself is of the same day.
RSIW_CI_SEED=${RSIW_CI_SEED:-$(($(now) / 86400))}

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

# Take over the counts of a tool that ends with a line like ours: its output
# is in a file. Without such a line it broke off, which is a failure.
add_counts() {
	local line
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$1" | tail -n 1)
	if [ -z "$line" ]; then
		FAILED=$((FAILED + 1))
		return
	fi
	# shellcheck disable=SC2046 # the digits are words
	set -- $(tr -dc '0-9 ' <<<"$line")
	PASSED=$((PASSED + $1)) FAILED=$((FAILED + $2)) SKIPPED=$((SKIPPED + $3))
}

# retries LOG...: what the runner says of tests that were tried again, added up: "retried 3 (siw-crc 2, ...)".
retries() {
	cat "$@" 2>/dev/null | sed -n 's/^retried: [0-9]* (\(.*\))$/\1/p' | tr , '\n' |
		awk 'NF == 2 { count[$1] += $2 } END { for (name in count) print name, count[name] }' | sort |
		awk '{ text = text (NR > 1 ? ", " : "") $0; all += $2 }
			END { if (all) print "retried " all " (" text ")" }'
}

# part COUNT: which of so many parts this run has, by its seed.
part() { echo $((RSIW_CI_SEED % $1)); }

# vm_jobs LOG VM-RUN-ARGUMENT...: jobs in guests. Their results are counted, and
# a runner that breaks off without one that failed.
vm_jobs() {
	local log=$1
	shift
	vm_run "$log" test ${RSIW_LANES:+--lanes "$RSIW_LANES"} "$@"
}
# vm_run LOG VM-RUN-ARGUMENT...: the same for any action of vm-run.
vm_run() {
	local log=$1 before=$FAILED status
	shift
	"$TOP/tools/vm-run" "$@" 2>&1 | tee "$log"
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

# Files of the project, committed or about to be.
files() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do
	[ ! -f "$f" ] || echo "$f"
done; }
