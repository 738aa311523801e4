#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# RDMA devices of network namespaces, in exclusive mode (rdma system set netns exclusive): processes see
# and use the devices of their own namespace only. A device can move from one namespace to another.

. /tests/lib.sh
. /tests/device/lib
plan 20

sees() { rdma dev show | grep ": $1:"; }
# `ip netns exec` runs programs, not functions.
ns_sees() { ip netns exec "$1" rdma dev show | grep ": $2:"; }
belongs_to_ns1() {
	wait_for 25 ns_sees ns1 there || return
	! sees there && ! ns_sees ns2 there
}
belongs_to_init() {
	wait_for 25 sees there || return
	! ns_sees ns1 there && ! ns_sees ns2 there
}
first_stays() { sees "$DEV" && ! ns_sees ns1 "$DEV" && ! ns_sees ns2 "$DEV"; }
# rping_in_ns ADDRESS PORT: rping in the namespace pings itself, over the namespace's own device.
rping_in_ns() {
	started server ip netns exec ns1 rping -s -a "$1" -p "$2" -C 20
	in_ns /tests/guest/listens "$2" 10 || return
	within 25 ip netns exec ns1 rping -c -a "$1" -p "$2" -C 20 && ends server 30
}
# fails_at_once COMMAND...: it fails, and does not wait for ever.
fails_at_once() {
	local status=0
	within 10 "$@" || status=$?
	[ "$status" != 0 ] && [ "$status" != 124 ]
}
# Programs in a namespace without a device can neither connect nor listen.
ns2_cannot() {
	fails_at_once ip netns exec ns2 rping -c -a 10.8.2.1 -p 7604 -C 1 &&
		fails_at_once ip netns exec ns2 rping -s -a 10.8.2.2 -p 7604 -C 1
}
ns1_cannot() { fails_at_once ip netns exec ns1 rping -s -a 10.8.1.2 -p 7605 -C 1; }
# A wildcard listener in a namespace opens no port outside of it.
heard_inside() {
	local status=0
	started server ip netns exec ns1 rping -s -p 7606 -C 20
	in_ns /tests/guest/listens 7606 10 || return
	[ -z "$(ss -Hltn 'sport = :7606')" ] || { echo "a port outside is open"; ss -ltn; status=1; }
	within 25 rping -c -a 10.8.1.2 -p 7606 -C 20 || status=1
	ends server 30
	return "$status"
}
move_out() { in_ns rdma dev set there netns first; }
move_in() { rdma dev set there netns ns1; }
# The kernel deletes a namespace some time after its name is gone.
shared_again() {
	ip netns del ns1 && ip netns del ns2 && wait_for 20 device_gone there &&
		wait_for 20 rdma system set netns shared && rdma system show | grep "netns shared"
}

run "load the driver" load_driver || exit 1
# This file tells the runner to leave exclusive mode if the job does not come to its end.
touch /run/rsiw/exclusive
run "switch to exclusive mode" rdma system set netns exclusive || exit 1
mkdir -p /run/netns
ip netns attach first $$
for n in 1 2; do
	ip netns add "ns$n"
	ip link add "veth$n" type veth peer name inner netns "ns$n"
	ip addr add "10.8.$n.1/24" dev "veth$n"
	ip link set "veth$n" up
	ip -n "ns$n" addr add "10.8.$n.2/24" dev inner
	ip -n "ns$n" link set inner up
	ip -n "ns$n" link set lo up
done
run "the first device is seen in the first namespace only" first_stays
run "make a device on this end of a veth" add_device here veth1
run "make a device in a namespace" in_ns rdma link add there type "$RSIW_DRIVER" netdev inner
run "a device made in a namespace is seen there only" belongs_to_ns1
fails "a process outside of a namespace does not find its device" watch there
run "a process in a namespace uses its device" rping_in_ns 10.8.1.2 7601
run "rping connects devices of two namespaces" rping_into_ns 7602
LIMIT=60 run "a namespace without a device neither listens nor connects" ns2_cannot
run "a wildcard listener listens in its own namespace only" heard_inside
fails "an unknown namespace takes no device" in_ns rdma dev set there netns nowhere
run "a device moves out of its namespace" move_out
run "a device that moved out is seen in the first namespace only" belongs_to_init
run "the old namespace cannot use a device that moved out" ns1_cannot
run "a device moves back into its namespace" move_in
run "a device that moved back is seen in its namespace only" belongs_to_ns1
run "rping connects over a device that moved back" rping_into_ns 7607
run "shared mode returns when the namespaces are deleted" shared_again
rm -f /run/rsiw/exclusive
run "the first device moves data in shared mode" rping_self "$DEV" "$ADDR" 7608
