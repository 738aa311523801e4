#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
#
# Something happens to one host in the middle of a transfer: its network pauses, gets
# another MTU or other addresses, or its driver is unloaded.

. /tests/lib.sh
. /tests/device/lib
plan 14

run "load the driver on both hosts" both load_driver || exit 1

# transfer PROGRAM PORT SECONDS: starts one between the hosts and waits until data move.
transfer() {
	peer_bg "peer_$1" "$1" -F -R -p "$2" -s 16384 -D "$3" -d "$PEER_DEV" || return
	server_up "$2" || return
	started "$1" "$1" -F -R -p "$2" -s 16384 -D "$3" -d "$DEV" "$PEER"
	# Another transfer may be under way: that something moves is not enough.
	wait_for 40 qp_in_rts "$1" && moves 20 10
}
# qp_in_rts PROGRAM: its queue pair is connected.
qp_in_rts() { rdma res show qp | grep -E "state RTS .*comm $1\b"; }
# completed PROGRAM: it ran to its end and printed how fast, or that it could not tell
# how fast the CPU's clock ticks.
completed() {
	ends "$1" 40 && peer_end "peer_$1" 10 >/dev/null &&
		grep -qE "^ +16384 +[0-9]+ |Can't produce a report" "$WORK/$1"
}

# It lasts so long that a host may stand still meanwhile.
during_transfer() { transfer ib_write_bw 7501 "$(limit 12)" && "$@" && completed ib_write_bw; }
# In half a second buffers fill, and TCP retransmits.
pause() { ip link set eth0 down && sleep 0.5 && ip link set eth0 up && wait_for 10 device_active "$DEV"; }
LIMIT=80 run "a transfer outlives a pause of eth0" during_transfer pause
/tests/guest/addresses "$RSIW_SIDE"
mtu() { peer ip link set eth0 mtu "$1" && ip link set eth0 mtu "$1" && moves 10 10; }
#= 5041-3-2
mtus() { mtu 1300 && mtu 4000 && mtu 600 && mtu 1500; }
LIMIT=80 run "a transfer outlives changes of the MTU" during_transfer mtus
no_address() { ip addr flush dev eth0 scope global && sleep 0.5 && /tests/guest/addresses "$RSIW_SIDE"; }
LIMIT=80 run "a transfer outlives the loss of its address for a while" during_transfer no_address

# eth0 gets another address: rping connects from it and to it, over the same device.
OTHER=10.7.0.77
here_pings() {
	peer_bg server rping -s -a "$PEER" -p 7504 -C 5 -V && server_up 7504 &&
		rping -c -a "$PEER" -I "$OTHER" -p 7504 -C 5 -V && peer_end server 10
}
peer_pings() {
	started server rping -s -a "$OTHER" -p 7505 -C 5 -V
	listens 7505 && peer rping -c -a "$OTHER" -p 7505 -C 5 -V && ends server 10
}
moved() {
	ip addr flush dev eth0 scope global && ip addr add "$OTHER/24" dev eth0 || return
	here_pings && peer_pings
}
LIMIT=60 run "rping connects from and to a new address" moved
# The program of a transfer is told to end after its address has gone. So TCP cannot send anything any more;
# the connection ends all the same.
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
LIMIT=60 run "a program can end after its address has gone" abandoned

busy_hosts() { transfer ib_write_bw 7502 60 && transfer ib_read_bw 7503 60; }
LIMIT=100 run "start Writes and Reads between the hosts" busy_hosts
run "this host's driver unloads amid Writes and Reads" within 20 rmmod "$RSIW_DRIVER"
end_here() { ends ib_write_bw 15 && ends ib_read_bw 15; }
run "rmmod on this host ends its programs" end_here
# These lose their connections: their device is still there.
end_there() {
	local name status=0
	for name in peer_ib_write_bw peer_ib_read_bw; do
		wait_for 15 test -e "$WORK/$name.status" || { echo "$name does not end"; status=1; }
		tail -n 3 "$WORK/$name"
	done
	return "$status"
}
run "rmmod on this host ends the peer's programs" end_there
run "load the driver again" load_driver
LIMIT=100 run "start Writes and Reads over the reloaded driver" busy_hosts
# This host's Writes keep the only processor of the other host in softirqs: rmmod gets little of it.
LIMIT=70 run "the peer's driver unloads amid Writes and Reads" within 60 peer rmmod "$RSIW_DRIVER_PEER"
run "rmmod on the peer ends this host's programs" end_here
