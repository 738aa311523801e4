#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
# pairs: rsiw,*
#
# On which network devices an RDMA device can be made, and on which it must not.

. /tests/lib.sh
. /tests/device/lib
plan 31

run "load the driver" load_driver || exit 1

# A CAN device carries no IP. The hardware address of a tunnel is an IP address.
unsuitable() {
	local name=$1 netdev=$2
	shift 2
	if ip link add "$netdev" "$@"; then
		run "$name" says "Invalid argument" link_add bad "$netdev"
	else
		skip "$name" "this kernel has none"
	fi
}
unsuitable "a CAN device is refused" vcan0 type vcan
unsuitable "a GRE tunnel is refused" gre1 type gre local 10.9.9.1 remote 10.9.9.2
run "a second RDMA device on a network device is refused" says "File exists" link_add bad eth0
ip link add dummy1 type dummy
# The RDMA core's error for a name that is taken.
run "a device name that is taken is refused" says "Too many open files in system" link_add "$DEV" dummy1
run "a device name with a percent sign is refused" says "Invalid argument" link_add 'x%d' dummy1
run "a device name that is too long is refused" says "Invalid argument" link_add "$(printf 'x%.0s' {1..80})" dummy1
run "an unknown network device is refused" says "No such device" link_add bad nonesuch
run "an unknown link type is refused" says "Invalid argument" rdma link add bad type nonesuch netdev dummy1
only_one() { rdma link; [ "$(rdma link | wc -l)" = 1 ]; }
run "refused requests leave no device behind" only_one
fails "rdma link del of an unknown device fails" rdma link del nonesuch

# made_on NAME NETDEV ADDRESS: two tests, that a device is made there, and that it carries connections of the
# address.
port=7210
made_on() {
	port=$((port + 1))
	ip link set "$2" up
	ip addr add "$3/24" dev "$2"
	run "a device is made on $1" link_add "r_$2" "$2" || return
	wait_for 1 device_active "r_$2" || note "$(rdma link show "r_$2/1")"
	run "a device on $1 moves data" rping_self "r_$2" "$3" "$port"
}
ip link add veth1 type veth peer name veth2
ip link set veth2 up
made_on "a veth" veth1 10.8.1.1
ip link add link veth2 name vlan1 type vlan id 7
made_on "a VLAN" vlan1 10.8.2.1
ip link add bond1 type bond
made_on "a bond" bond1 10.8.3.1
ip link add br1 type bridge
made_on "a bridge" br1 10.8.4.1
modprobe tun
ip tuntap add tun1 mode tun
made_on "a tun (no hardware address)" tun1 10.8.5.1
made_on "a dummy" dummy1 10.8.6.1
made_on lo lo 10.8.7.1

# For an address of a VLAN the RDMA core takes the VLAN's device or its parent's, whichever it finds first.
ip link add link veth1 name vlan2 type vlan id 8
ip link set vlan2 up
ip addr add 10.8.8.1/24 dev vlan2
run "a device is made on a VLAN whose parent has one" link_add r_vlan2 vlan2
either() {
	local before after
	before=$(($(tx_messages r_vlan2) + $(tx_messages r_veth1)))
	rping_self "" 10.8.8.1 7229 || return
	after=$(($(tx_messages r_vlan2) + $(tx_messages r_veth1)))
	[ $((after - before)) -ge 40 ]
}
run "a VLAN's device or its parent's carries a connection" either
run "the device on a VLAN's parent still moves data" rping_self r_veth1 10.8.1.1 7230

gids() {
	local all
	# Of the devices whose network devices have different hardware addresses.
	all=$(for dev in "$DEV" r_veth1 r_vlan1 r_bond1 r_br1 r_tun1 r_dummy1 r_lo; do
		cat "/sys/class/infiniband/$dev/ports/1/gids/0"
	done)
	echo "$all"
	[ "$(sort -u <<<"$all" | wc -l)" = 8 ] && ! grep -q ^0000:0000:0000 <<<"$all"
}
run "each device has a GID of its own" gids

only_that_one() { rdma link del r_bond1 && ! rdma link show r_bond1/1 && device_active "$DEV" && device_active r_dummy1; }
run "rdma link del removes only the device that it names" only_that_one
again() { link_add r_bond1 bond1 && rping_self r_bond1 10.8.3.1 7231; }
run "the name of a deleted device can be used again" again
