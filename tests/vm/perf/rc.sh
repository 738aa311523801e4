#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 3600
# kernel: stock
# pairs: rsiw,rsiw
#
# Queue pairs that programs connect, beside those that the RDMA CM connects: bandwidth and latency by perftest without -R
# and with it, in turns, ROUNDS times (9), once each is first. Prints all values, the medians and their ratio. It asserts
# only that everything runs: what to expect of a machine is for people to say. SECONDS_EACH: of a bandwidth (2).

. /tests/lib.sh
. /tests/rc/lib
: "${ROUNDS:=9}" "${SECONDS_EACH:=2}"
points=("ib_write_bw 65536" "ib_send_bw 65536" "ib_read_bw 65536" "ib_write_bw 64" "ib_send_lat 2" "ib_write_lat 2")
plan $((1 + ${#points[@]}))

# value PROGRAM SIZE OPTION...: what it measures.
value() {
	local program=$1 size=$2 metric=${1#ib_} amount=(-D "$SECONDS_EACH") ours=() theirs=()
	shift 2
	[ "${program%_lat}" = "$program" ] || amount=(-n 4000)
	if [ "$1" = -R ]; then ours=(-R -d rsiw0) theirs=(-R -d rsiw0); else ours=(-d rc0 -x "$2") theirs=(-d rc0 -x "$1"); fi
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	peer_bg server "$program" -F -s "$size" "${amount[@]}" "${theirs[@]}"
	if ! server_up 18515 || ! "$program" -F -s "$size" "${amount[@]}" "${ours[@]}" "$PEER" >"$WORK/client" 2>&1 ||
		! peer_end server 20 >"$WORK/ended"; then
		cat "$WORK/client" "$WORK/server" >&2
		return 1
	fi
	python3 /tests/perf/read.py "$metric" "$size" "$WORK/client" "" | cut -f 1,2
}
median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }
# compared PROGRAM SIZE
compared() {
	local i by_program=() by_cm=() line unit gids
	gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
	for ((i = 0; i < ROUNDS; i++)); do
		for way in $([ $((i % 2)) = 0 ] && echo program cm || echo cm program); do
			# Indices are words.
			# shellcheck disable=SC2046,SC2086
			line=$(value "$1" "$2" $([ "$way" = cm ] && echo -R || echo $gids)) || return
			unit=${line#*$'\t'}
			if [ "$way" = cm ]; then by_cm+=("${line%$'\t'*}"); else by_program+=("${line%$'\t'*}"); fi
		done
	done
	echo "by programs: ${by_program[*]} $unit"
	echo "by the RDMA CM: ${by_cm[*]} $unit"
	awk -v a="$(median "${by_program[@]}")" -v b="$(median "${by_cm[@]}")" -v unit="$unit" \
		'BEGIN { printf "medians %s and %s %s: %.3f\n", a, b, unit, a / b }'
}

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
for point in "${points[@]}"; do
	# shellcheck disable=SC2086
	LIMIT=$((60 * ROUNDS)) run "$point, by programs and by the RDMA CM" compared $point
done
