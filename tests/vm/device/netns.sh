#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# Network namespaces, as containers use them.

. /tests/lib.sh
. /tests/device/lib
plan 12

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
gone() { [ ! -e "/sys/class/infiniband/$1" ]; }
run "the namespace ends, and its device with it" kill_ns
run "the other end notices" ends client 20
run "the first device works" ping "$DEV" "$ADDR" 7404
