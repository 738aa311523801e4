#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
# time: virtual
#
# The link, and then the address, of a queue pair that its program connects goes and comes back
# while two processes exchange messages: that costs nothing if TCP survives it. If the link stays
# away, TCP gives up, and the next Send fails. An exchange takes 10 ms, so a run takes seconds.
# LEAVE: link or address: it does not come back; none: it does not go. The job has to fail.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
plan 8
: "${LEAVE:=}"

# In two namespaces of one guest the devices of the hosts have different names.
here=rc0 there=rc0
[ -z "${RSIW_NETNS:-}" ] || there=rc1
# Within it TCP has to survive, and after it TCP gives up.
short() { echo 8000 >"/sys/class/infiniband/$1/settings/user_timeout_ms"; }

run "load the driver on both hosts" both load_driver || exit 1
made() {
	peer_sh ". /tests/rc/lib; $(declare -f short); rc_add $there eth0 && short $there" &&
		rc_add "$here" eth0 && short "$here"
}
run "make a link with a short timeout on both hosts" made || exit 1
modprobe sch_netem
run "the way takes 10 ms" tc qdisc add dev eth0 root netem delay 10ms limit 100000

index_here() { gid_index "$ADDR" "$here"; }
index_there() { peer_sh ". /tests/rc/lib; gid_index $PEER $there"; }
# begun COUNT: two processes exchange so many messages, and some have arrived.
begun() {
	local before
	before=$(tx_messages "$here")
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	peer_bg server ibv_rc_pingpong -e -d "$there" -g "$(index_there)" -p 18520 -n "$1"
	server_up 18520 || return
	started client ibv_rc_pingpong -e -d "$here" -g "$(index_here)" -p 18520 -n "$1" "$PEER" &&
		wait_for 10 more_than "$here" $((before + 50))
}
# went_on: both processes end well.
went_on() {
	ends client 60 && [ "$(<"$WORK/client.status")" = 0 ] && peer_end server 10
}
# still: nothing is sent once what was under way has ended. Neither process has ended.
still() {
	local before
	nap 1
	before=$(tx_messages "$here")
	nap 2
	echo "messages: $before, $(tx_messages "$here") after 2 s"
	[ "$(tx_messages "$here")" = "$before" ] && [ ! -e "$WORK/client.status" ] &&
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
	ip addr del "$ADDR/24" dev eth0 && wait_for 5 eval "! gid_index $ADDR $here" && still || return
	[ "$LEAVE" = address ] || ip addr add "$ADDR/24" dev eth0
	went_on
}
LIMIT=100 run "an exchange survives an address that goes and comes back" address_blinks
/tests/guest/addresses "$RSIW_SIDE"
again() { wait_for 10 gid_index "$ADDR" "$here" && begun 200 && went_on; }
run "an exchange begins with the address that came back" again

# pair: two processes whose queue pairs have the next number on either host, after one Send.
# say WORD: to the one here.
pair() {
	local next
	next=$(sed -n 's/.*local address:.*QPN \(0x[0-9a-f]*\).*/\1/p' "$WORK/client")
	next=$((next + 1))
	mkfifo "$WORK/words"
	peer_bg waits sh -c "tail -f /dev/null | rcwait $there $(index_there) ::ffff:$ADDR $next"
	started asks sh -c "exec rcwait $here $(index_here) ::ffff:$PEER $next 1 14 <>'$WORK/words'"
	told asks "^$next$" && say send && told asks "^sent 0" && told waits "^received 0" 10
}
say() { echo "$1" >"$WORK/words"; }
# lost STATUS: the link goes for good. Once TCP has given up, the next Send has that status.
lost() {
	pair || { cat "$WORK/asks" "$WORK/waits"; return 1; }
	[ "$LEAVE" = none ] || ip link set eth0 down
	say send
	# TCP has taken this one.
	told asks "^sent 0" && wait_for 60 no_connection_here || return
	say send
	told asks "^$1" 20
	local result=$?
	cat "$WORK/asks"
	return "$result"
}
no_connection_here() {
	[ -z "$(ss -Htn state established "( sport = :4791 or dport = :4791 )")" ]
}
if has_provider; then
	run "the host loads rsiw's provider" use_provider
	LIMIT=100 run "a Send fails for the retries when the link stays away" \
		lost "transport retry counter exceeded"
else
	skip "the host loads rsiw's provider" "$NO_PROVIDER"
	skip "a Send fails for the retries when the link stays away" "$NO_PROVIDER"
fi
