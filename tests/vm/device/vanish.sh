#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# pairs: rsiw,rsiw
#
# A host is switched off, or reset and back in moments, with connections alive. The runner cannot do that to one
# guest, so this emulates what the peer, this host, sees: the other host falls silent, and when it is back, it does
# not know its connections. There its network goes down first, then its programs, its sockets and the driver end
# without a word, and then its network may come back. What the other host would leave behind is not tried, as a
# host that is reset leaves nothing. ROUNDS: how many resets.

. /tests/lib.sh
. /tests/device/lib
: "${ROUNDS:=1}"
plan 8

SETTINGS=/sys/class/infiniband/$DEV/settings
PING=(rping -V -S 30000 -C 100000000)
# connected [OTHERS]: three connections under load, besides others: two from here, as from a client, and one from there.
connected() {
	local before
	before=$(tx_messages "$DEV")
	peer_bg there1 "${PING[@]}" -s -a "$PEER" -p 7951 && peer_bg there2 "${PING[@]}" -s -a "$PEER" -p 7952 &&
		started here3 "${PING[@]}" -s -a "$ADDR" -p 7953 && peer_listens 7951 && peer_listens 7952 &&
		listens 7953 || return
	started here1 "${PING[@]}" -c -a "$PEER" -p 7951 && started here2 "${PING[@]}" -c -a "$PEER" -p 7952 &&
		peer_bg there3 "${PING[@]}" -c -a "$ADDR" -p 7953 || return
	wait_for 20 ready $((3 + ${1:-0})) && wait_for 20 more_than "$DEV" $((before + 100))
}
ready() { [ "$(rdma res show qp | grep -c 'state RTS')" = "$1" ]; }
# What the peer does. Its sockets are gone before its network is back.
cut_off() {
	ip link set eth0 down
	pkill -9 -x 'rping|many'
	timeout 20 rmmod "$RSIW_DRIVER" || return
	! ss -Htan '( sport >= :7951 and sport <= :7954 ) or ( dport >= :7951 and dport <= :7954 )' | grep .
}
back() { ip link set eth0 up && /tests/guest/addresses "$RSIW_SIDE" && load_driver; }
at_peer() { peer_sh "$(declare -f cut_off back); $1"; }
off() { at_peer cut_off && for name in there1 there2 there3; do peer_kill "$name"; done; }
# all_end SECONDS: the programs here end in time, and nothing of their connections stays.
all_end() {
	local name began=$SECONDS status=0
	for name in here1 here2 here3; do ends "$name" "$1" || status=1; done
	echo "all ended after $((SECONDS - began)) s"
	wait_for 10 no_qps && wait_for 10 no_sockets 7951 7952 7953 && return "$status"
}
# Those of processes: a kernel client of an earlier job (device/consumers) may still try to connect.
no_qps() { [ "$(rdma res show qp | grep -vc 'comm \[')" = 0 ]; }
# TCP's next try finds a host without the connection, which resets it. Where this host waits for the peer it has
# nothing to send again, so what comes is a probe: by default that takes a minute.
probes() {
	echo 1 >"$SETTINGS/keepalive_idle_s" && echo 1 >"$SETTINGS/keepalive_interval_s" && grep . "$SETTINGS"/keepalive*
}
reset_rounds() {
	local i
	for ((i = 1; i <= ROUNDS; i++)); do
		echo "round $i"
		connected && off && at_peer back && all_end 30 || return
	done
}
# The peer stays off. TCP gives up what it has sent, or its probes, after the time that the device's settings say.
soon() { echo 4000 >"$SETTINGS/user_timeout_ms"; }
# A fourth connection is idle.
stays_off() {
	local status=0
	peer_bg server many server "$PEER" 7954 1 && peer_listens 7954 || return
	started idle sh -c "sleep 1000 | many client $PEER 7954 1 1"
	wait_for 20 ready 1 && connected 1 && off && peer_kill server || return
	wait_for 30 ready 0 || { rdma res show qp; status=1; }
	pkill -x many
	all_end 30 && no_sockets 7954 || status=1
	at_peer back && return "$status"
}
references() { [ "$(cat "/sys/module/$RSIW_DRIVER/refcnt")" = "$references" ]; }

run "load the driver on both hosts" both load_driver || exit 1
references=$(cat "/sys/module/$RSIW_DRIVER/refcnt")
run "set short times between probes" probes
LIMIT=$((ROUNDS * 40)) run "connections end when a host is reset under load, $ROUNDS times" reset_rounds
run "a host that was reset is connected to" rping_peer "$PEER" 7955 -C 5
run "set a short time of silence" soon
LIMIT=80 run "connections under load and idle ones end when a host stays off" stays_off
run "no reference to the module stays" references
run "a host that was off is connected to" rping_peer "$PEER" 7956 -C 5
