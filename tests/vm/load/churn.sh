#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# time: virtual
# kernel: stock
# pairs: rsiw,*
#
# Connections one after the other, which each connect to this host, send one message, disconnect and are destroyed: all
# messages arrive, and a connection takes no more than 1.3 times as long as with siw. Time is virtual, so it is the
# instructions of both ends and the kernel, and what they wait for. Drivers take turns, ROUNDS times COUNT connections.
# CLOSED=1: each connection waits until it is disconnected before it is destroyed. DRIVERS: the first is compared with
# the last; rsiw-NAME is /build/rsiw-NAME.ko.

. /tests/lib.sh
: "${ROUNDS:=3}" "${COUNT:=60}" "${CLOSED:=}" "${DRIVERS:=rsiw siw}"
read -ra drivers <<<"$DRIVERS"
plan 1

switched() { awk '/^ctxt/ { print $2 }' /proc/stat; }
# churn DRIVER: connections in a second, and the switches of tasks of each.
churn() {
	local before after
	many sink "$ADDR" 7501 "$COUNT" >"$WORK/sink" &
	listens 7501 || return
	before=$(switched)
	many churn "$ADDR" 7501 "$COUNT" ${CLOSED:+closed} >"$WORK/churned" 2>&1 || { cat "$WORK/churned" "$WORK/sink"; return 1; }
	after=$(switched)
	wait $! || { cat "$WORK/sink"; return 1; }
	# siw closes its socket at once, and may lose what it has not delivered.
	[ "$1" = siw ] || grep -q "received $COUNT" "$WORK/sink" || { cat "$WORK/sink"; return 1; }
	awk -v n=$((after - before)) -v of="$COUNT" '/^churned/ { printf "%s/%.1f\n", $(NF - 2), n / of }' "$WORK/churned"
}
off() { rdma link del bench && rmmod "$(driver_of "$1")"; }
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
in_turns() {
	local i driver each first last
	declare -A seen rate
	for ((i = 0; i < ROUNDS; i++)); do
		for driver in "${drivers[@]}"; do
			with "$driver" || return
			each=$(churn "$driver") || { echo "$driver: $each"; return 1; }
			seen[$driver]+=" $each" rate[$driver]+=" ${each%/*}"
			off "$driver" || return
		done
	done
	for driver in "${drivers[@]}"; do
		# shellcheck disable=SC2086 # numbers
		last=$(median ${rate[$driver]})
		: "${first:=$last}"
		echo "$driver: in a second, and switches for each:${seen[$driver]}; median $last"
	done
	awk -v first="$first" -v last="$last" 'BEGIN { printf "ratio %.2f\n", last / first; exit last > 1.3 * first }'
}
ulimit -l unlimited
LIMIT=240 run "a connection that comes and goes takes little longer than with siw" in_turns
