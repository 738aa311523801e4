#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
#
# What happens to one host's device while the other is in the middle of a
# transfer: the network pauses, changes its MTU or its addresses, or the driver goes.

. /tests/lib.sh
. /tests/device/lib
plan 14

run "load the driver on both hosts" both load_driver || exit 1

# transfer PROGRAM PORT SECONDS: between the hosts, in the background.
transfer() {
	peer_bg "peer_$1" "$1" -F -R -p "$2" -s 16384 -D "$3" -d "$PEER_DEV" || return
	server_up "$2" || return
	started "$1" "$1" -F -R -p "$2" -s 16384 -D "$3" -d "$DEV" "$PEER"
	# Another transfer may be under way.
	wait_for 40 connected "$1" && wait_for 10 moving
}
# connected PROGRAM: its queue pair runs.
connected() { rdma res show qp | grep -E "state RTS .*comm $1\b"; }
moving() {
	local before
	before=$(tx_messages "$DEV")
	sleep 0.2
	[ "$(tx_messages "$DEV")" -gt $((before + 20)) ]
}
# The transfer went on to its end, and said how fast, or that it could not tell
# how fast the CPU's clock ticks.
completed() {
	ends "$1" 25 && peer_end "peer_$1" 10 >/dev/null &&
		grep -qE "^ +16384 +[0-9]+ |Can't produce a report" "$WORK/$1"
}

during() { transfer ib_write_bw 7501 3 && "$@" && completed ib_write_bw; }
pause() { ip link set eth0 down && sleep 0.5 && ip link set eth0 up && wait_for 10 device_active "$DEV"; }
LIMIT=45 run "a transfer outlives a pause of eth0" during pause
/tests/guest/addresses "$RSIW_SIDE"
mtu() { peer ip link set eth0 mtu "$1" && ip link set eth0 mtu "$1" && sleep 0.2; }
mtus() { mtu 1300 && mtu 4000 && mtu 600 && mtu 1500; }
LIMIT=45 run "and changes of the MTU" during mtus
no_address() { ip addr flush dev eth0 scope global && sleep 0.5 && /tests/guest/addresses "$RSIW_SIDE"; }
LIMIT=45 run "and the loss of its address for a while" during no_address

# Another address, and the device is the same: it is pinged from, and at.
OTHER=10.7.0.77
here_pings() {
	peer_bg server rping -s -a "$PEER" -p 7504 -C 5 -V && server_up 7504 &&
		rping -c -a "$PEER" -I "$OTHER" -p 7504 -C 5 -V && peer_end server 10
}
peer_pings() {
	started server rping -s -a "$OTHER" -p 7505 -C 5 -V
	wait_for 10 listening 7505 && peer rping -c -a "$OTHER" -p 7505 -C 5 -V && ends server 10
}
listening() { ss -Htln | grep -q ":$1 "; }
moved() {
	ip addr flush dev eth0 scope global && ip addr add "$OTHER/24" dev eth0 || return
	here_pings && peer_pings
}
LIMIT=60 run "another address, and who uses it" moved
# The connection of this one comes to its end with its program, whatever TCP may still wait for.
abandoned() {
	ip addr flush dev eth0 scope global && /tests/guest/addresses "$RSIW_SIDE" &&
		transfer ib_write_bw 7506 20 || return
	ip addr flush dev eth0 scope global && ip addr add "$OTHER/24" dev eth0 && pkill -x ib_write_bw
	ends ib_write_bw 10
	local status=$?
	wait_for 10 no_qps || status=1
	ip addr flush dev eth0 scope global
	/tests/guest/addresses "$RSIW_SIDE"
	peer_kill peer_ib_write_bw
	return "$status"
}
no_qps() { ! rdma res show qp | grep ib_write_bw; }
LIMIT=60 run "an end after its address has gone" abandoned

busy_hosts() { transfer ib_write_bw 7502 60 && transfer ib_read_bw 7503 60; }
LIMIT=100 run "Writes and Reads between the hosts" busy_hosts
run "the driver of this host goes" within 20 rmmod "$RSIW_DRIVER"
end_here() { ends ib_write_bw 15 && ends ib_read_bw 15; }
run "the programs here end" end_here
# By losing their connections: their device is still there.
end_there() {
	local name status=0
	for name in peer_ib_write_bw peer_ib_read_bw; do
		wait_for 15 test -e "$WORK/$name.status" || { echo "$name does not end"; status=1; }
		tail -n 3 "$WORK/$name"
	done
	return "$status"
}
run "the programs of the other host end" end_there
run "loaded again" load_driver
LIMIT=100 run "Writes and Reads between the hosts, as before" busy_hosts
# This host's Writes keep the other one's only processor in softirqs: its programs get little of it.
LIMIT=70 run "the driver of the other host goes" within 60 peer rmmod "$RSIW_DRIVER_PEER"
run "the programs here end" end_here
