#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# pairs: rsiw,*
#
# Links whose queue pairs programs connect, in network namespaces, in exclusive mode (rdma system set netns exclusive)
# and in shared mode: who sees and uses them, what moves them, and what becomes of queue pairs in each state.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
plan 26

# 0.27 s, eight times. A connection that never was has 10 s.
TIMEOUT=16
sees() { rdma dev show | grep ": $1:"; }
in_ns_sees() { in_ns rdma dev show | grep ": $1:"; }
# A GID's index by a program in the namespace, which has a sysfs of its own.
in_ns_index() { in_ns bash -c ". /tests/lib.sh; _planned=-; . /tests/rc/lib; gid_index 10.8.1.2 rcns"; }
namespace() {
	ip netns add ns1 && ip link add veth1 master br1 up type veth peer name inner netns ns1 &&
		ip -n ns1 addr add 10.8.1.2/24 dev inner && ip -n ns1 link set inner up && ip -n ns1 link set lo up &&
		in_ns rdma link add rcns type rsiw_rc netdev inner && has_gids
}
has_gids() { wait_for 10 gid_index 10.8.1.1 rch && wait_for 10 in_ns_index; }
belongs_to_ns1() { wait_for 10 in_ns_sees rcns && ! sees rcns && sees rch && ! in_ns_sees rch; }
belongs_to_first() { wait_for 10 sees rcns && ! in_ns_sees rcns; }
inside() { in_ns rcstates rcns "$(in_ns_index)" >"$WORK/states" || { grep -v '^ok' "$WORK/states"; return 1; }; }
# A program here and its server in the namespace.
across() {
	started server ip netns exec ns1 ibv_rc_pingpong -d rcns -g "$(in_ns_index)" -p 18520 -n 200
	in_ns /tests/guest/listens 18520 10 && ibv_rc_pingpong -d rch -g "$(gid_index 10.8.1.1 rch)" -p 18520 -n 200 10.8.1.2 &&
		ends server 10 && [ "$(<"$WORK/server.status")" = 0 ]
}
# Queue pairs of the namespace's device in each state, of a program there; the server is here.
stand() {
	started standing rcstand rch "$(gid_index 10.8.1.1 rch)" "$TIMEOUT" && listens 18530 || return
	started stands ip netns exec ns1 rcstand rcns "$(in_ns_index)" "$TIMEOUT" 10.8.1.1
	told stands '^stands' || { cat "$WORK/stands" "$WORK/standing"; return 1; }
}
alone() { ends standing 60 && [ "$(<"$WORK/standing.status")" = 0 ]; }
killed() { kill -9 "$(<"$WORK/stands.pid")"; ends stands 10; }
# The process has nothing of its device any more: its call to go on fails.
cut_off() { kill -USR1 "$(<"$WORK/stands.pid")"; ends stands 10 && [ "$(<"$WORK/stands.status")" != 0 ]; }
move_out() { in_ns rdma dev set rcns netns first && cut_off; }
no_use() { says "Cannot assign requested address" rcwait rcns "$(gid_index 10.8.1.2 rcns || echo 1)" ::ffff:10.8.1.2 5; }
moved_back() { rdma dev set rcns netns ns1 && belongs_to_ns1 && has_gids; }
ended() { ip netns del ns1; killed && wait_for 20 device_gone rcns; }
nothing_stays() { wait_for 20 eval "no_connections && nothing_left" || { ss -tn; nothing_left; return 1; }; }

run "load the driver" load_driver || exit 1
# This file tells the runner to leave exclusive mode if the job does not come to its end.
touch /run/rsiw/exclusive
run "switch to exclusive mode" rdma system set netns exclusive || exit 1
mkdir -p /run/netns
ip netns attach first $$
# It stays when the namespace ends, and its veth with it.
bridge() { ip link add br1 type bridge && ip addr add 10.8.1.1/24 dev br1 && ip link set br1 up && rc_add rch br1; }
run "make a link on a bridge" bridge || exit 1
run "make a link in a namespace, by a veth to the bridge" namespace || exit 1
run "a link made in a namespace is seen there only" belongs_to_ns1
fails "a process outside of a namespace does not find its link" rcwait rcns 1 ::ffff:10.8.1.2 5
run "a process in a namespace uses its link" inside
run "processes of two namespaces exchange messages" across
run "queue pairs of a namespace stand in each state" stand
run "a link that moves out takes the queue pairs from their process" move_out
run "a link that moved out is seen in the first namespace only" belongs_to_first
LIMIT=70 run "the peer is told nothing of the move, and what it sends fails" alone
run "a link that moved out has addresses that nobody here has" no_use
run "a link moves back into its namespace" moved_back
run "a process in a namespace uses a link that moved back" inside
run "processes exchange messages over a link that moved back" across
run "queue pairs stand in each state before the end of the namespace" stand
run "the end of the namespace ends them, and the link" ended
run "nothing stays after the end of the namespace" nothing_stays
LIMIT=70 run "the peer is told nothing of the end, and what it sends fails" alone
run "shared mode returns" wait_for 20 rdma system set netns shared
rm -f /run/rsiw/exclusive
run "make a link in a namespace in shared mode" namespace
seen() { sees rcns && in_ns_sees rcns; }
run "in shared mode a link is seen in each namespace" seen
run "in shared mode a link does not move" says "not supported" rdma dev set rcns netns ns1
run "in shared mode a process in the namespace uses its link" inside
run "in shared mode a process elsewhere has none of the link's addresses" no_use
