#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# Network namespaces, as containers use them.

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
in_ns() { ip netns exec ns1 "$@"; }

run "a device on this end of a veth" add_device here veth1
run "a device in the namespace" in_ns rdma link add there type "$RSIW_DRIVER" netdev veth2
across() {
	local status
	started server ip netns exec ns1 rping -s -a 10.8.1.2 -p "$1" -C 20
	in_ns /tests/guest/listens "$1" 10 || return
	within "$(limit 10)" rping -c -a 10.8.1.2 -p "$1" -C 20
	status=$?
	ends server 5
	return "$status"
}
run "a connection into the namespace" across 7401
in_ns_closed() { ! in_ns ss -Htna 'sport = :7401' | grep -v TIME-WAIT; }
closed() { wait_for 5 no_sockets 7401; no_sockets 7401 && wait_for 5 in_ns_closed; }
run "no socket is left on either side" closed
# Ports are each namespace's own.
same_port() {
	started server ip netns exec ns1 rping -s -a 10.8.1.2 -p 7402 -C 20 -v
	in_ns /tests/guest/listens 7402 10 || return
	ping here 10.8.1.1 7402
	kill "$(<"$WORK/server.pid")"
	ends server 5
}
run "the same port in both" same_port

# The RDMA CM has who listens on the wildcard address listen on all devices, of all namespaces.
everywhere() {
	started everywhere setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all \
		--bounding-set=-all rping -s -P -a 0.0.0.0 -p 7405
	listens 7405
}
port_in_ns1() { in_ns ss -Hltn "sport = :$1" | grep .; }
port_here() { ss -Hltn "sport = :$1" | grep .; }
not_in_ns1() { port_here 7405 && ! port_in_ns1 7405; }
# A device that comes later.
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
	within "$(limit 10)" in_ns rping -c -a 10.8.1.1 -p 7405 -C 5
}
run "a user listens on the wildcard address" everywhere
run "no port of another namespace is opened" not_in_ns1
run "nor of a device that comes there later" not_later
run "nor is one here by who listens there" not_here
run "a peer in the namespace reaches the user" reached
kill "$(<"$WORK/within.pid")"
run "a process in the namespace holds the device" started watch ip netns exec ns1 watch there
run "it is ready" told watch ready
connected() {
	local before
	before=$(tx_messages here)
	started server ip netns exec ns1 rping -s -a 10.8.1.2 -p 7403 -V -S 1000
	in_ns /tests/guest/listens 7403 10 || return
	started client rping -c -a 10.8.1.2 -p 7403 -C 100000000 -V -S 1000
	wait_for 10 more_than here $((before + 100))
}
run "busy across the namespaces" connected
# What ends a container: its processes go on until somebody ends them, but the
# devices of a namespace without users go with it.
kill_ns() {
	ip netns pids ns1 | xargs -r kill -9
	ip netns del ns1
	wait_for 20 gone there
}
# With the namespace go its interfaces, although a listener of all devices is there.
gone() { [ ! -e "/sys/class/infiniband/$1" ] && [ ! -e /sys/class/net/veth1 ]; }
run "the namespace ends, and its device with it" kill_ns
run "the other end notices" ends client 20
run "the first device works" ping "$DEV" "$ADDR" 7404
# A device belongs to the namespace of its network device. If that moves while the device is being made,
# the device ends like any other of a network device that leaves, or is not made.
moves_meanwhile() {
	local i made=0
	ip netns add ns2
	ip link add moves type veth peer name stays
	for ((i = 1; i <= 40; i++)); do
		(sleep "0.00$((RANDOM % 10))"; exec ip link set moves netns ns2) &
		rdma link add moved type "$RSIW_DRIVER" netdev moves 2>/dev/null && made=$((made + 1))
		wait "$!" || { echo "round $i: the network device does not move"; return 1; }
		wait_for 5 gone moved || { echo "round $i: left behind"; rdma link; return 1; }
		ip -n ns2 link set moves netns 1 || return
	done
	echo "$made of 40 devices were made before the move"
}
LIMIT=60 run "a device is made while its network device moves to another namespace" moves_meanwhile
