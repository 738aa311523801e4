#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# pairs: rsiw,rsiw
#
# Many queue pairs that two processes connect by themselves: at a time, one end long before the other, and while
# addresses and GIDs come and go.

. /tests/lib.sh
. /tests/rc/lib
plan 7

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
theirs=$(peer_gid_index "$PEER") ours=$(gid_index "$ADDR")
# mesh COUNT DELAY-MS [WHO]: queue pairs with the peer's; the client is here.
mesh() {
	[ ! -e "$WORK/mesh.pid" ] || peer_kill mesh
	peer_bg mesh rcmesh rc0 "$theirs" "$1" 0
	server_up 18530 || return
	rcmesh rc0 "$ours" "$1" "$2" "$PEER" || { cat "$WORK/mesh"; return 1; }
	peer_end mesh 20
}
N=${QUEUE_PAIRS:-1000}
run "64 queue pairs are connected" mesh 64 0
LIMIT=120 run "$N queue pairs are connected" mesh "$N" 0
LIMIT=120 run "64 queue pairs are connected, the client's 3 s later" mesh 64 3000
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
	mesh "$N" 0
	result=$?
	kill $!
	wait $! 2>/dev/null
	return "$result"
}
LIMIT=120 run "$N queue pairs are connected while addresses come and go" churned
run "no connection is left" wait_for 60 no_connections
closed() { ! ss -Hltn "sport = :4791" | grep .; }
run "no port is open when no queue pair waits" closed
