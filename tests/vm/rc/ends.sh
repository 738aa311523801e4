#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 180
# pairs: rsiw,rsiw
#
# How queue pairs end that programs connect by themselves: their process is killed, the link is deleted, its network
# namespace ends, the module goes.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
plan 16

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
# busy NAME: a program here and its server on the peer move data until somebody ends one.
busy() {
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	peer_bg server ibv_rc_pingpong -e -d rc0 -g "${gids% *}" -p 18520 -n 100000000
	server_up 18520 || return
	started client ibv_rc_pingpong -e -d rc0 -g "${gids#* }" -p 18520 -n 100000000 "$PEER"
	wait_for 20 more_than rc0 $(($(tx_messages rc0) + 20))
}
run "two processes move data" busy
killed() { kill -9 "$(<"$WORK/client.pid")" && wait_for 10 no_connections; }
run "a killed process leaves no connection" killed
# Its peer waits for a message, and InfiniBand tells it nothing.
told_nothing() { sleep 2; [ ! -s "$WORK/server.status" ]; }
run "the peer of a killed process is told nothing" told_nothing
run "two processes move data again" busy
peer_ends() { peer_kill server; wait_for 20 no_connections; }
run "the end of the peer leaves no connection" peer_ends
kill -9 "$(<"$WORK/client.pid")"
run "two processes move data before the link goes" busy
deleted() { within 9 rdma link del rc0 && device_gone rc0 && ends client 10 >/dev/null; device_gone rc0; }
run "rdma link del removes a link in use" deleted
run "the other link is still there" device_active "$DEV"
run "a link is made again" rc_add rc0 eth0

# A device in shared mode is open to processes of all namespaces, its addresses are not.
namespace() {
	ip netns add ns1
	ip link add veth1 type veth peer name veth2 netns ns1
	ip netns exec ns1 sh -c 'ip addr add 10.8.1.2/24 dev veth2; ip link set veth2 up; ip link set lo up' || return
	ip link set veth1 up
	ip netns exec ns1 rdma link add rcns type rsiw_rc netdev veth2 && wait_for 10 gid_index 10.8.1.2 rcns
}
run "a link is made in a namespace" namespace
from_outside() {
	local said
	said=$(timeout 10 rcwait rcns "$(gid_index 10.8.1.2 rcns)" ::ffff:10.8.1.2 5 </dev/null 2>&1)
	echo "$said"
	[[ $said == *"Cannot assign requested address"* ]]
}
run "a process elsewhere does not use the namespace's addresses" from_outside
inside() { ip netns exec ns1 rcstates rcns "$(gid_index 10.8.1.2 rcns)" | grep -q '^ok the one that it expects'; }
run "a process in the namespace does" inside
ended() { ip netns del ns1 && wait_for 20 device_gone rcns; }
run "the end of the namespace removes the link" ended

run "start data before the module goes" busy
unloaded() { within 20 rmmod rsiw; }
run "the module is unloaded while both kinds of links are there" unloaded
