#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# kernel: stock
# pairs: rsiw,rsiw
#
# This host suspends for some seconds, as far as a guest can that is not to lose the runner: its processes and freezable
# work stand still (the kernel's pm_test), its clock goes on. Connections of both kinds of links that carry data, those
# that are still to come, and queue pairs in each state outlast it.

. /tests/lib.sh
. /tests/device/lib
. /tests/rc/lib
plan 9

[ -w /sys/power/pm_test ] || skip_all "this kernel has no pm_test"
run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
theirs=$(peer_gid_index "$PEER") ours=$(gid_index "$ADDR")

suspend() {
	local before status=0
	before=$(</sys/power/suspend_stats/success)
	echo freezer >/sys/power/pm_test || return
	echo freeze >/sys/power/state || status=1
	echo none >/sys/power/pm_test
	[ "$status" = 0 ] && [ "$(</sys/power/suspend_stats/success)" = $((before + 1)) ]
}
busy() {
	peer_bg server ibv_rc_pingpong -e -d rc0 -g "$theirs" -p 18520 -n 100000000
	server_up 18520 || return
	started client ibv_rc_pingpong -e -d rc0 -g "$ours" -p 18520 -n 100000000 "$PEER"
	wait_for 20 more_than rc0 $(($(tx_messages rc0) + 20))
	peer_bg rping-server rping -s -p 7401 -C 0
	server_up 7401 || return
	started rping rping -c -a "$PEER" -p 7401 -C 100000000
	wait_for 20 more_than rsiw0 $(($(tx_messages rsiw0) + 20))
}
# Queue pairs here that call, in vain until the peer's program has its own ready, some seconds later.
calls() {
	started mesh rcmesh rc0 "$ours" 8 0
	listens 18530 || return
	[ ! -e "$WORK/late.pid" ] || peer_kill late
	peer_bg late rcmesh rc0 "$theirs" 8 8000 "$ADDR"
	wait_for 20 all_call
}
all_call() { [ "$(rdma resource show qp link rc0 | grep -c 'state RTS .*comm rcmesh')" = 8 ]; }
# Queue pairs in each state, which stand still.
stand() {
	[ ! -e "$WORK/standing.pid" ] || peer_kill standing
	peer_bg standing rcstand rc0 "$theirs" 20
	server_up 18530 || return
	started stands rcstand rc0 "$ours" 20 "$PEER"
	wait_for 20 grep -q stands "$WORK/stands" || { cat "$WORK/stands" "$WORK/standing"; return 1; }
}
they_go_on() { kill -USR1 "$(<"$WORK/stands.pid")" && peer_end standing 40 && ends stands 20 && grep 'goes on' "$WORK/stands"; }
connected() { peer_end late 40 && ends mesh 20; }
go_on() {
	wait_for 20 more_than rc0 $(($(tx_messages rc0) + 20)) || { cat "$WORK/client"; return 1; }
	wait_for 20 more_than rsiw0 $(($(tx_messages rsiw0) + 20)) || { cat "$WORK/rping"; return 1; }
}

run "two programs move data" busy
run "queue pairs stand in each state" stand
run "queue pairs call their peers" calls
LIMIT=40 run "the host suspends" suspend
run "connections of both kinds go on" go_on
LIMIT=60 run "the queue pairs that call are connected" connected
LIMIT=60 run "queue pairs go on from each state" they_go_on
kill -9 "$(<"$WORK/client.pid")" "$(<"$WORK/rping.pid")"
run "no connection is left" wait_for 20 no_connections
