#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 3600
# kernel: stock
# pairs: rsiw,rsiw
#
# Queue pairs that programs connect, beside those that the RDMA CM connects: bandwidth and latency by perftest without
# -R and with it, in turns, ROUNDS times (9), each way first in its turn.
# Prints all values, the medians and their ratios to the first way's. It asserts only that everything runs: what to
# expect of a machine is for people to say. WAYS: some of program, cm, rxe, and rsiw-NAME: by a program, with another
# build. SECONDS_EACH: of a bandwidth (2). POINTS, separated by commas: program, size, options.

. /tests/lib.sh
. /tests/rc/lib
: "${ROUNDS:=9}" "${SECONDS_EACH:=2}"
: "${WAYS:=program cm}"
: "${POINTS:=ib_write_bw 65536,ib_send_bw 65536,ib_read_bw 65536,ib_write_bw 64,ib_write_bw 64 -Q 1,ib_send_lat 2,ib_write_lat 2}"
read -ra ways <<<"$WAYS"
IFS=, read -ra points <<<"$POINTS"
plan $((1 + ${#points[@]}))

# up WAY: the links that it needs. Where two builds take turns, the other one goes.
up() {
	case $1 in
	rxe) load_module rxe && { [ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev eth0; } ;;
	*)
		local build=rsiw
		[[ $1 != rsiw-* ]] || build=$1
		if [ "$(cat /run/rsiw/build 2>/dev/null)" != "$build" ]; then
			! [ -e /sys/module/rsiw ] || rmmod rsiw || return
			load_module "$build" && add_device rsiw0 eth0 rsiw && rc_add rc0 eth0 && echo "$build" >/run/rsiw/build
		fi
		;;
	esac
}
# value WAY PROGRAM SIZE OPTION...: what it measures.
value() {
	local way=$1 program=$2 metric=${2#ib_} size=$3 dev=rc0 options=() there here
	both eval "$(declare -f up); . /tests/rc/lib; up $way" || return
	if [ "$way" = cm ]; then
		there="-R -d rsiw0" here=$there
	else
		[ "$way" != rxe ] || dev=rxe0
		there="-d $dev -x $(peer_sh ". /tests/rc/lib; gid_index $PEER $dev")"
		here="-d $dev -x $(gid_index "$ADDR" "$dev")"
	fi
	options=(-F -s "$size" "${@:4}")
	if [ "${program%_lat}" = "$program" ]; then options+=(-D "$SECONDS_EACH"); else options+=(-n 4000); fi
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	# shellcheck disable=SC2086 # words
	peer_bg server "$program" "${options[@]}" $there
	# shellcheck disable=SC2086
	if ! server_up 18515 || ! "$program" "${options[@]}" $here "$PEER" >"$WORK/client" 2>&1 ||
		! peer_end server 20 >"$WORK/ended"; then
		cat "$WORK/client" "$WORK/server" >&2
		return 1
	fi
	python3 /tests/perf/read.py "$metric" "$size" "$WORK/client" "" | cut -f 1,2
}
median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }
# compared PROGRAM SIZE OPTION...
compared() {
	local i n way line unit first middle
	declare -A seen
	for ((i = 0; i < ROUNDS; i++)); do
		for ((n = 0; n < ${#ways[@]}; n++)); do
			way=${ways[(i + n) % ${#ways[@]}]}
			line=$(value "$way" "$@") || return
			unit=${line#*$'\t'}
			seen[$way]+=" ${line%$'\t'*}"
		done
	done
	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086 # numbers
		middle=$(median ${seen[$way]})
		: "${first:=$middle}"
		echo "$way:${seen[$way]} $unit; median $middle, to ${ways[0]} $(awk -v a="$middle" -v b="$first" \
			'BEGIN { printf "%.3f", a / b }')"
	done
}

run "load the drivers and make the links on both hosts" eval \
	'for way in "${ways[@]}"; do both eval "$(declare -f up); . /tests/rc/lib; up $way" || exit; done' || exit 1
for point in "${points[@]}"; do
	# shellcheck disable=SC2086
	LIMIT=$((60 * ROUNDS)) run "$point: ${ways[*]}" compared $point
done
