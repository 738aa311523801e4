#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# pairs: rsiw,rsiw
#
# Queue pairs of this host stand in each state (INIT, RTR, RTS, RTS with a Send that finds no receive, SQD, ERR), and one
# moves data, when their processes are killed, their link is deleted, their network namespace ends, or the module goes.
# The peer is told nothing, as with InfiniBand; what it sends then fails for the retries.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
macvlan=
! ip link add probe link eth0 type macvlan || { ip link del probe && macvlan=yes; }
plan "$([ -n "$macvlan" ] && echo 19 || echo 15)"

here=rc0 address=$ADDR
# 0.27 s, eight times. A connection that never was has 10 s.
TIMEOUT=16
# What comes before a command that uses the link.
in_link=()

index_here() { "${in_link[@]}" bash -c ". /tests/lib.sh; _planned=-; . /tests/rc/lib; gid_index $address $here"; }
stand() {
	local name ours theirs
	wait_for 10 index_here && ours=$(index_here) && theirs=$(peer_gid_index "$PEER") || return
	for name in standing server; do [ ! -e "$WORK/$name.pid" ] || peer_kill "$name"; done
	peer_bg standing rcstand rc0 "$theirs" "$TIMEOUT" && server_up 18530 || return
	started stands "${in_link[@]}" rcstand "$here" "$ours" "$TIMEOUT" "$PEER"
	told stands '^stands' || { cat "$WORK/stands" "$WORK/standing"; return 1; }
	peer_bg server ibv_rc_pingpong -e -d rc0 -g "$theirs" -p 18520 -n 100000000 && server_up 18520 || return
	started client "${in_link[@]}" ibv_rc_pingpong -e -d "$here" -g "$ours" -p 18520 -n 100000000 "$PEER"
	wait_for 20 more_than "$here" $(($(tx_messages "$here") + 20)) || { cat "$WORK/client"; return 1; }
}
killed() {
	kill -9 "$(<"$WORK/stands.pid")" 2>/dev/null
	kill -9 "$(<"$WORK/client.pid")" 2>/dev/null
	ends stands 10 && ends client 10
}
nothing_stays() { wait_for 20 eval "no_connections && nothing_left" || { ss -tn; nothing_left; return 1; }; }
# What stands there learns from its own socket that the process has ended; the other program waits for a message.
peer_is_alone() {
	peer_end standing 60 || return
	[ ! -s "$WORK/server.status" ] || { cat "$WORK/server"; return 1; }
}
# end WHAT COMMAND...: ends them in that way.
end() {
	local what=$1
	shift
	run "queue pairs stand in each state before $what" stand || return
	run "$what ends them" "$@"
	run "nothing stays on this host after $what" nothing_stays
	LIMIT=70 run "the peer is told nothing of $what, and what it sends fails" peer_is_alone
}

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1

end "kill -9" killed

deleted() { within 10 rdma link del "$here" && device_gone "$here" && killed; }
end "rdma link del" deleted
run "a link is made again" rc_add "$here" eth0

namespace() {
	ip netns add ns1 && ip link add inner link eth0 netns ns1 type macvlan mode bridge || return
	ip -n ns1 addr add "$address/24" dev inner && ip -n ns1 link set inner up && ip -n ns1 link set lo up &&
		ip netns exec ns1 rdma link add "$here" type rsiw_rc netdev inner
}
at_once() { ip netns del ns1; killed && wait_for 20 device_gone "$here"; }
of_host=("$here" "$address")
here=rcns address=10.7.0.11 in_link=(ip netns exec ns1)
if [ -n "$macvlan" ]; then
	run "make a link in a network namespace" namespace && end "the end of the namespace" at_once
else
	skip "the end of the namespace" "this kernel has no macvlan"
fi
here=${of_host[0]} address=${of_host[1]} in_link=()

unloaded() { within 20 rmmod rsiw && killed; }
end "rmmod" unloaded
