#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
# time: virtual
#
# A host that says nothing any more: no packet of it arrives, and none arrives there. Requests of the other host's queue
# pairs fail when the time of their program is over (timeout, retry_cnt), not when TCP gives up. A host that is there,
# and has no receive, has time without end.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
plan 14

# Codes of the time, and when requests fail for it: after twice what eight of it are, but 10 s at the least.
LONG=19 LONG_MS=(34360 48000)
SHORT=14 SHORT_MS=(10000 15000)

run "load the driver on both hosts" both load_driver || exit 1
run "make a link on both hosts" rc_add_both || exit 1
modprobe sch_netem
own_library
GONE=$(status_of "transport retry counter exceeded")

silent() { peer tc qdisc replace dev eth0 root netem loss 100% && tc qdisc replace dev eth0 root netem loss 100%; }
heard() { peer tc qdisc del dev eth0 root; tc qdisc del dev eth0 root; }
# no_more COUNT SECONDS: the program here says nothing besides so many lines.
no_more() { nap "$2"; [ "$(wc -l <"$WORK/asks")" = "$1" ] && no_end; }
no_end() { [ ! -s "$WORK/asks.status" ]; }

# fails WORD: a Write or Read, sent to the silent host.
request_fails() {
	pair "$LONG" 1 && silent && at_region "$1" || return
	told asks "^$GONE" 60
	heard
	said took "$GONE" "${LONG_MS[@]}"
}
LIMIT=100 run "a Write to a silent host fails when its time is over" request_fails write
LIMIT=100 run "a Read of a silent host fails when its time is over" request_fails read

# TCP has taken this one, and it has completed. The receive tells.
send_is_missed() {
	pair "$SHORT" 1 && silent && say send || return
	told asks "Flushed" 60
	heard
	said took "Work Request Flushed Error" "${SHORT_MS[@]}"
}
LIMIT=100 run "a Send that TCP has taken ends the queue pair of a silent host" send_is_missed

comes_back() {
	pair "$LONG" 1 && silent && at_region write || return
	no_more 2 8 || { heard; return 1; }
	heard
	told asks "^sent 0 after [0-9]{4}" 20
	said grep -E "^sent 0 after [0-9]{4,5} ms" "$WORK/asks"
}
LIMIT=100 run "a request succeeds when the host speaks again in time" comes_back

idle() {
	pair "$SHORT" 1 && silent || return
	no_more 2 60 || { heard; return 1; }
	heard
	say send && wait_for 20 eval '[ "$(wc -l <"$WORK/asks")" = 3 ]'
	said [ "$(grep -c "^sent 0" "$WORK/asks")" = 2 ]
}
LIMIT=150 run "a silent host costs nothing if nothing is sent to it" idle

# Its Write is behind a Send that has no receive there. TCP has all acknowledged.
waits_behind() { pair "$SHORT" 1 && say send && say send && at_region write && no_more 4 60; said true; }
LIMIT=150 run "a request behind a Send that waits for its receive has time without end" waits_behind
then_silent() {
	silent
	told asks "^$GONE" 60
	heard
	tail -n 3 "$WORK/asks"
	grep -q "^$GONE" "$WORK/asks"
}
LIMIT=100 run "it fails when the host is silent" then_silent

# More than the window of TCP.
closed() {
	pair "$SHORT" 1 && say send && say large || return
	no_more 3 200 || { said false; return 1; }
	# One for the Send, and one for this.
	receive_there && nap 1 && receive_there
	wait_for 20 eval '[ "$(wc -l <"$WORK/asks")" = 4 ]'
	said [ "$(grep -c "^sent 0" "$WORK/asks")" = 3 ]
}
LIMIT=300 run "a Send that closes the window of TCP waits for its receive without end" closed
run "both processes are there still" no_end

# more_unread STATE BYTES: connections in that state hold more bytes.
more_unread() { [ "$(unread "$1")" -gt "$2" ]; }
unread() { ss -Htn state "$1" "( sport = :4791 or dport = :4791 )" | awk '{ n += $(NF - 3) } END { print n + 0 }'; }
# Its Send finds no receive. Behind that are its answer to a Write, and its FIN.
leaves() {
	local before
	pair "$SHORT" 1 && peer_says send && told asks "^received 0" && peer_says send || return
	wait_for 20 more_unread established 0 || return
	before=$(unread established)
	at_region write && wait_for 20 more_unread established "$before" || return
	peer_kill waits
	wait_for 20 more_unread close-wait 0 || { ss -tn; return 1; }
	no_more 3 3 || { said false; return 1; }
	kill -USR1 "$(<"$WORK/asks.pid")"
	wait_for 20 eval '[ "$(wc -l <"$WORK/asks")" = 5 ]'
	said [ "$(grep -c "^sent 0" "$WORK/asks")" = 2 ] && [ "$(grep -c "^received 0" "$WORK/asks")" = 2 ] || return
	nap 3
	say state && told asks "^states 3"
}
LIMIT=100 run "a peer that has left has answered what it has answered, behind a Send without a receive" leaves

end_pair
run "no connection is left" wait_for 20 no_connections
