#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# RDMA devices that belong to one network namespace each (rdma system set netns exclusive): a
# namespace sees and uses its own devices, and no other does; a device moves from one to another.

. /tests/lib.sh
. /tests/device/lib
plan 20

in_ns() { ip netns exec ns1 "$@"; }
sees() { rdma dev show | grep ": $1:"; }
# Functions do not pass through ip netns exec.
ns_sees() { ip netns exec "$1" rdma dev show | grep ": $2:"; }
belongs_to_ns1() {
	wait_for 5 ns_sees ns1 there || return
	! sees there && ! ns_sees ns2 there
}
belongs_to_init() {
	wait_for 5 sees there || return
	! ns_sees ns1 there && ! ns_sees ns2 there
}
first_stays() { sees "$DEV" && ! ns_sees ns1 "$DEV" && ! ns_sees ns2 "$DEV"; }
# ns_ping ADDRESS PORT: over the namespace's own device, with itself.
ns_ping() {
	started server ip netns exec ns1 rping -s -a "$1" -p "$2" -C 20
	in_ns /tests/guest/listens "$2" 10 || return
	within 10 ip netns exec ns1 rping -c -a "$1" -p "$2" -C 20 && ends server 5
}
# across PORT: from the first namespace, over its device, to ns1's.
across() {
	local status
	started server ip netns exec ns1 rping -s -a 10.8.1.2 -p "$1" -C 20
	in_ns /tests/guest/listens "$1" 10 || return
	within 10 rping -c -a 10.8.1.2 -p "$1" -C 20
	status=$?
	ends server 5
	return "$status"
}
# refused COMMAND...: it fails by itself, at once.
refused() {
	local status=0
	within 10 "$@" || status=$?
	[ "$status" != 0 ] && [ "$status" != 124 ]
}
# Without a device of their namespace, programs can neither connect nor listen.
ns2_cannot() {
	refused ip netns exec ns2 rping -c -a 10.8.2.1 -p 7604 -C 1 &&
		refused ip netns exec ns2 rping -s -a 10.8.2.2 -p 7604 -C 1
}
ns1_cannot() { refused ip netns exec ns1 rping -s -a 10.8.1.2 -p 7605 -C 1; }
# A listener for all addresses of a namespace opens no port outside it.
heard_inside() {
	local status=0
	started server ip netns exec ns1 rping -s -p 7606 -C 20
	in_ns /tests/guest/listens 7606 10 || return
	[ -z "$(ss -Hltn 'sport = :7606')" ] || { echo "a port outside is open"; ss -ltn; status=1; }
	within 10 rping -c -a 10.8.1.2 -p 7606 -C 20 || status=1
	ends server 5
	return "$status"
}
move_out() { in_ns rdma dev set there netns first; }
move_in() { rdma dev set there netns ns1; }
# The core lets a namespace go some time after its name.
shared_again() {
	ip netns del ns1 && ip netns del ns2 && wait_for 20 gone there &&
		wait_for 20 rdma system set netns shared && rdma system show | grep "netns shared"
}
gone() { [ ! -e "/sys/class/infiniband/$1" ]; }

run "load the driver" load_driver || exit 1
# The runner's reset ends the mode if this job does not come to its end.
touch /run/rsiw/exclusive
run "exclusive mode" rdma system set netns exclusive || exit 1
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
run "the first device is in the first namespace only" first_stays
run "a device on this end of a veth" add_device here veth1
run "a device made in a namespace" in_ns rdma link add there type "$RSIW_DRIVER" netdev inner
run "it belongs to that namespace only" belongs_to_ns1
fails "a process outside does not find it" watch there
run "a process inside uses it" ns_ping 10.8.1.2 7601
run "a connection between devices of two namespaces" across 7602
LIMIT=60 run "a namespace without a device neither listens nor connects" ns2_cannot
run "a listener for all addresses is heard inside only" heard_inside
fails "an unknown namespace takes no device" in_ns rdma dev set there netns nowhere
run "the device moves out" move_out
run "it belongs to the first namespace only" belongs_to_init
run "its old namespace cannot use it" ns1_cannot
run "the device moves back" move_in
run "it belongs to its namespace again, only" belongs_to_ns1
run "it works as before" across 7607
run "shared mode again, the namespaces and their device gone" shared_again
rm -f /run/rsiw/exclusive
run "the first device works" ping "$DEV" "$ADDR" 7608
