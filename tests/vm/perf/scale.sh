#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 1200
# kernel: stock
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# What two queue pairs move on two processors, beside what one moves on one: pairs of programs in one
# host over lo, each pair on a processor of its own; in turns, ROUNDS times. They leave it to the driver
# while they wait for completions (-e), but for ib_write_bw, which polls. Each measurement is a line of
# scale.tsv; the medians are printed at the end, and asserted is only that everything runs.
# PARAMS: of the module; SIZE: of a message; COUNT: of messages; TESTS: which programs.

. /tests/lib.sh
: "${ROUNDS:=5}" "${COUNT:=8000}" "${PARAMS:=crc=0}" "${SIZE:=65536}" "${TESTS:=ib_send_bw ib_write_bw ib_read_bw}"
read -ra tests <<<"$TESTS"
plan $((1 + ROUNDS * 2 * ${#tests[@]} + 1))

results=$RSIW_OUT/scale.tsv
printf 'round\ttest\tpairs\tMiB/s\n' >"$results"

# side PROCESSOR PROGRAM [ADDRESS]: an end of a connection that uses the first one's port.
side() {
	local cpu=$1 program=$2 events=-e
	shift 2
	# This one can only poll.
	[ "$program" != ib_write_bw ] || events=
	taskset -c "$cpu" "$program" -F -R -p $((18515 + cpu)) -d "$DEV" -s "$SIZE" ${events:+"$events"} -n "$COUNT" "$@"
}
pair() {
	side "$1" "$2" "$LO" | awk -v size="$SIZE" '$1 == size { print $4 }'
}
# pairs NUMBER ROUND PROGRAM
pairs() {
	local cpu sum clients=()
	for ((cpu = 0; cpu < $1; cpu++)); do
		peer_bg "server$cpu" side "$cpu" "$3"
		server_up $((18515 + cpu)) || return
	done
	for ((cpu = 0; cpu < $1; cpu++)); do
		pair "$cpu" "$3" >"$WORK/pair$cpu" &
		clients+=($!)
	done
	wait "${clients[@]}"
	for ((cpu = 0; cpu < $1; cpu++)); do
		peer_kill "server$cpu"
		[ -s "$WORK/pair$cpu" ] || return
	done
	sum=$(awk '{ s += $1 } END { printf "%.1f", s }' "$WORK"/pair[01])
	rm -f "$WORK"/pair[01]
	printf '%s\t%s\t%s\t%s\n' "$2" "$3" "$1" "$sum" >>"$results"
	echo "$sum MiB/s"
}
# A program may be refused that is faster than its server.
tried() { pairs "$@" || pairs "$@" || pairs "$@"; }
medians() {
	local test n
	for test in "${tests[@]}"; do
		for n in 1 2; do
			awk -F '\t' -v t="$test" -v n="$n" '$2 == t && $3 == n { print $4 }' "$results" |
				sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
		done | paste -sd' ' | awk -v t="$test" '{ printf "%s: one %s, two %s MiB/s, ratio %.2f\n", t, $1, $2, $2 / $1 }'
	done
}

# shellcheck disable=SC2086 # parameters
on_lo() { RSIW_PARAMS="$PARAMS" load_on_lo; }
run "a device on lo, $PARAMS" on_lo || exit 1
for ((r = 1; r <= ROUNDS; r++)); do
	for test in "${tests[@]}"; do
		for n in 1 2; do
			LIMIT=90 run "round $r of $ROUNDS, $test: $n" tried "$n" "$r" "$test"
		done
	done
done
run "medians" medians
