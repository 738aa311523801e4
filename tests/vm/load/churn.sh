#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# kernel: stock
# pairs: rsiw,rsiw
#
# Connections one after the other, which each connect, send one message, disconnect and are destroyed: all messages
# arrive, and a connection takes no more than 1.65 times the switches of tasks that it takes with siw, of both hosts
# together. (Each is work that waits for another thread. How many connections there are in a second depends on what
# else the machine does, and is told only.) Drivers take turns, ROUNDS times COUNT connections. CLOSED=1: each
# connection waits until it is disconnected before it is destroyed. DRIVERS: the first is compared with the last;
# rsiw-NAME is /build/rsiw-NAME.ko.

. /tests/lib.sh
: "${ROUNDS:=5}" "${COUNT:=60}" "${CLOSED:=}" "${DRIVERS:=rsiw siw}"
read -ra drivers <<<"$DRIVERS"
plan 1

# Switches of tasks on both hosts so far.
switches() { echo $(($(switched) + $(peer awk '/^ctxt/ { print $2 }' /proc/stat))); }
switched() { awk '/^ctxt/ { print $2 }' /proc/stat; }
# churn DRIVER: connections in a second, and what each took.
churn() {
	local before after
	[ ! -e "$WORK/sink.pid" ] || peer_kill sink
	peer_bg sink many sink "$PEER" 7501 "$COUNT"
	server_up 7501 || return
	before=$(switches)
	many churn "$PEER" 7501 "$COUNT" ${CLOSED:+closed} >"$WORK/churned" 2>&1 || { cat "$WORK/churned" "$WORK/sink"; return 1; }
	after=$(switches)
	peer_end sink 30 >/dev/null || { cat "$WORK/sink"; return 1; }
	# siw closes its socket at once, and may lose what it has not delivered.
	[ "$1" = siw ] || grep -q "received $COUNT" "$WORK/sink" || { cat "$WORK/sink"; return 1; }
	awk -v n=$((after - before)) -v of="$COUNT" '/^churned/ { printf "%s/%.1f\n", $(NF - 2), n / of }' "$WORK/churned"
}
off() { rdma link del bench && rmmod "$1"; }
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
in_turns() {
	local i driver each first last
	declare -A seen taken
	for ((i = 0; i < ROUNDS; i++)); do
		for driver in "${drivers[@]}"; do
			both with "$driver" || return
			each=$(churn "$driver") || { echo "$driver: $each"; return 1; }
			seen[$driver]+=" $each" taken[$driver]+=" ${each#*/}"
			both eval "$(declare -f off); off $(driver_of "$driver")" || return
		done
	done
	for driver in "${drivers[@]}"; do
		# shellcheck disable=SC2086 # numbers
		last=$(median ${taken[$driver]})
		: "${first:=$last}"
		echo "$driver: in a second, and switches for each:${seen[$driver]}; median $last"
	done
	awk -v first="$first" -v last="$last" 'BEGIN { printf "ratio %.2f\n", first / last; exit first > 1.65 * last }'
}
ulimit -l unlimited
LIMIT=360 run "a connection that comes and goes takes few switches of tasks" in_turns
