#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
# time: virtual
#
# The link, and then the address, of a queue pair that its program connects goes and comes back
# while two processes exchange messages: that costs nothing if it is soon enough. If the link stays
# away, the queue pair fails. An exchange takes 10 ms, so a run takes seconds.
# LEAVE: link or address: it does not come back; none: it does not go. The job has to fail.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
plan 7
: "${LEAVE:=}"

run "load the driver on both hosts" both load_driver || exit 1
run "make a link on both hosts" rc_add_both || exit 1
modprobe sch_netem
run "the way takes 10 ms" tc qdisc add dev eth0 root netem delay 10ms limit 100000

index_here() { gid_index "$ADDR" rc0; }
index_there() { peer_sh ". /tests/rc/lib; gid_index $PEER $RC_THERE"; }
# begun COUNT: two processes exchange so many messages, and some have arrived.
begun() {
	local before
	before=$(tx_messages rc0)
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	peer_bg server ibv_rc_pingpong -e -d "$RC_THERE" -g "$(index_there)" -p 18520 -n "$1"
	server_up 18520 || return
	started client ibv_rc_pingpong -e -d rc0 -g "$(index_here)" -p 18520 -n "$1" "$PEER" &&
		wait_for 10 more_than rc0 $((before + 50))
}
# went_on: both processes end well.
went_on() {
	ends client 60 && [ "$(<"$WORK/client.status")" = 0 ] && peer_end server 10
}
# still: nothing is sent once what was under way has ended. Neither process has ended.
still() {
	local before
	nap 1
	before=$(tx_messages rc0)
	nap 2
	echo "messages: $before, $(tx_messages rc0) after 2 s"
	[ "$(tx_messages rc0)" = "$before" ] && [ ! -e "$WORK/client.status" ] &&
		[ ! -e "$WORK/server.status" ]
}
link_blinks() {
	begun 1000 || return
	ip link set eth0 down && still || return
	[ "$LEAVE" = link ] || ip link set eth0 up
	went_on
}
LIMIT=100 run "an exchange survives a link that goes and comes back" link_blinks
# IPv6 loses its addresses with the link.
/tests/guest/addresses "$RSIW_SIDE"
address_blinks() {
	begun 1000 || return
	ip addr del "$ADDR/24" dev eth0 && wait_for 5 eval "! gid_index $ADDR rc0" && still || return
	[ "$LEAVE" = address ] || ip addr add "$ADDR/24" dev eth0
	went_on
}
LIMIT=100 run "an exchange survives an address that goes and comes back" address_blinks
/tests/guest/addresses "$RSIW_SIDE"
again() { wait_for 10 gid_index "$ADDR" rc0 && begun 200 && went_on; }
run "an exchange begins with the address that came back" again

# lost: the link goes for good while a Send is under way that TCP has taken, and that has completed. The queue pair fails
# when the time of its program is over.
lost() {
	pair 14 0 || { cat "$WORK/asks" "$WORK/waits"; return 1; }
	[ "$LEAVE" = none ] || ip link set eth0 down
	say send
	told asks "Flushed Error 0 after" 60
	local result=$?
	cat "$WORK/asks"
	[ "$(grep -c "^sent 0" "$WORK/asks")" = 2 ] && return "$result"
}
LIMIT=100 run "a queue pair fails when the link stays away" lost
