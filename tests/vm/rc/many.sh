#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 500
# time: virtual
# pairs: rsiw,rsiw
#
# Many queue pairs that two processes connect by themselves: at a time, one end long before the other, and while
# addresses and GIDs come and go; and how fast, beside the RDMA CM's connections. ROUNDS: of that comparison.

. /tests/lib.sh
. /tests/rc/lib
plan 8
: "${ROUNDS:=3}"

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
# A thousand take minutes on other kernels.
[ "$RSIW_KERNEL" = stock ] || : "${QUEUE_PAIRS:=200}"
N=${QUEUE_PAIRS:-1000}
run "64 queue pairs are connected" mesh "$gids" 64 0
LIMIT=120 run "$N queue pairs are connected" mesh "$gids" "$N" 0
LIMIT=120 run "64 queue pairs are connected, the client's 3 s later" mesh "$gids" 64 3000
# Addresses that no queue pair has come and go, and so do their GIDs.
churn() {
	local i
	for ((i = 0; ; i++)); do
		ip addr add "10.7.66.$((i % 200 + 1))/32" dev eth0
		ip addr del "10.7.66.$((i % 200 + 1))/32" dev eth0
	done
}
churned() {
	local result
	churn &
	mesh "$gids" "$N" 0
	result=$?
	kill $!
	wait $! 2>/dev/null
	return "$result"
}
LIMIT=120 run "$N queue pairs are connected while addresses come and go" churned
# with_cm COUNT: as many connections of the RDMA CM, over the other link, 64 at a time.
with_cm() {
	[ ! -e "$WORK/cm.pid" ] || peer_kill cm
	peer_bg cm sh -c "ulimit -l unlimited; many server $PEER 7501 $1"
	server_up 7501
	ulimit -l unlimited
	echo | many client "$PEER" 7501 "$1" 64 >"$WORK/client" 2>&1
	grep established "$WORK/client" || { cat "$WORK/client" "$WORK/cm"; return 1; }
	peer_end cm 60
}
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }
# In turns. Both count from the first queue pair that is made to the last that can send.
as_fast() {
	local i of_programs=() of_cm=()
	for ((i = 0; i < ROUNDS; i++)); do
		mesh "$gids" "$1" 0 >"$WORK/said" || { cat "$WORK/said"; return 1; }
		of_programs+=("$(awk '/^[0-9]+ queue pairs in/ { print $5 }' "$WORK/said")")
		with_cm "$1" >"$WORK/said" || { cat "$WORK/said"; return 1; }
		of_cm+=("$(awk '/^established/ { print int(1000 * $4) }' "$WORK/said")")
	done
	echo "$1 queue pairs: ${of_programs[*]} ms; with the RDMA CM ${of_cm[*]} ms"
	# A machine that does other work is no reason to fail.
	[ $(($(median "${of_programs[@]}") * 4)) -le $(($(median "${of_cm[@]}") * 5)) ]
}
LIMIT=200 run "queue pairs are connected at the RDMA CM's rate or faster" as_fast "$((N / 2))"
run "no connection is left" wait_for 60 no_connections
closed() { ! ss -Hltn "sport = :4791" | grep .; }
run "no port is open when no queue pair waits" closed
