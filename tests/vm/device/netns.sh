#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# Devices in network namespaces, as containers use them.

. /tests/lib.sh
. /tests/device/lib
plan 18

run "load the driver" load_driver || exit 1
ip netns add ns1
ip link add veth1 type veth peer name veth2 netns ns1
ip addr add 10.8.1.1/24 dev veth1
ip link set veth1 up
ip -n ns1 addr add 10.8.1.2/24 dev veth2
ip -n ns1 link set veth2 up
ip -n ns1 link set lo up

run "make a device on this end of a veth" add_device here veth1
run "make a device in the namespace" in_ns rdma link add there type "$RSIW_DRIVER" netdev veth2
run "rping connects into the namespace" rping_into_ns 7401
in_ns_closed() { ! in_ns ss -Htna 'sport = :7401' | grep -v TIME-WAIT; }
closed() { wait_for 5 no_sockets 7401; no_sockets 7401 && wait_for 5 in_ns_closed; }
run "a connection into the namespace leaves no socket" closed
# Each namespace has ports of its own.
same_port() {
	started server ip netns exec ns1 rping -s -a 10.8.1.2 -p 7402 -C 20 -v
	in_ns /tests/guest/listens 7402 10 || return
	rping_self here 10.8.1.1 7402
	kill "$(<"$WORK/server.pid")"
	ends server 30
}
run "two namespaces use the same port" same_port

# For a wildcard listener the RDMA CM asks all devices to listen, those of other namespaces included.
everywhere() {
	started everywhere ordinary rping -s -P -a 0.0.0.0 -p 7405
	listens 7405
}
port_in_ns1() { in_ns ss -Hltn "sport = :$1" | grep .; }
port_here() { ss -Hltn "sport = :$1" | grep .; }
not_in_ns1() { port_here 7405 && ! port_in_ns1 7405; }
# The device in the namespace is made again, after the listener.
not_later() {
	in_ns rdma link del there && in_ns rdma link add there type "$RSIW_DRIVER" netdev veth2 &&
		not_in_ns1
}
not_here() {
	started within ip netns exec ns1 rping -s -P -a 0.0.0.0 -p 7406
	in_ns /tests/guest/listens 7406 10 || return
	port_in_ns1 7406 && ! port_here 7406
}
reached() {
	within 25 in_ns rping -c -a 10.8.1.1 -p 7405 -C 5
}
run "a user listens on the wildcard address" everywhere
run "a wildcard listener opens no port in another namespace" not_in_ns1
run "a wildcard listener opens no port for a later device elsewhere" not_later
run "a wildcard listener in a namespace opens no port here" not_here
run "a peer in the namespace reaches the wildcard listener here" reached
kill "$(<"$WORK/within.pid")"
run "start a process in the namespace that holds the device" started watch ip netns exec ns1 watch there
run "a process in the namespace holds the device" told watch ready
busy_across() {
	local before
	before=$(tx_messages here)
	started server ip netns exec ns1 rping -s -a 10.8.1.2 -p 7403 -V -S 1000
	in_ns /tests/guest/listens 7403 10 || return
	started client rping -c -a 10.8.1.2 -p 7403 -C 100000000 -V -S 1000
	wait_for 10 more_than here $((before + 100))
}
run "a connection between the namespaces moves data" busy_across
# How a container ends: its processes go on until somebody kills them, and the
# devices of a namespace without processes go with it.
kill_ns() {
	ip netns pids ns1 | xargs -r kill -9
	ip netns del ns1
	# The interfaces go, too, although the wildcard listener listens on all devices.
	wait_for 20 device_gone there && wait_for 20 test ! -e /sys/class/net/veth1
}
run "the end of a namespace removes its device" kill_ns
run "the end of a namespace ends connections into it" ends client 20
run "the first device still moves data" rping_self "$DEV" "$ADDR" 7404
# A device belongs to the namespace of its network device. If the network device moves to another namespace
# while the RDMA device is being made, that is not made, or goes like any other whose network device leaves.
moves_meanwhile() {
	local i pause made=0
	RANDOM=1
	ip netns add ns2
	ip link add moves type veth peer name stays
	for ((i = 1; i <= 40; i++)); do
		# A subshell would have a seed of its own.
		pause=0.00$((RANDOM % 10))
		(sleep "$pause"; exec ip link set moves netns ns2) &
		rdma link add moved type "$RSIW_DRIVER" netdev moves 2>/dev/null && made=$((made + 1))
		wait "$!" || { echo "round $i: the network device does not move"; return 1; }
		wait_for 5 device_gone moved || { echo "round $i: left behind"; rdma link; return 1; }
		ip -n ns2 link set moves netns 1 || return
	done
	echo "$made of 40 devices were made before the move"
}
LIMIT=60 run "a device is made while its network device moves to another namespace" moves_meanwhile
