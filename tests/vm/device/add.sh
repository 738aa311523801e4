#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
# pairs: rsiw,*
#
# Network devices that become RDMA devices, and those that must not.

. /tests/lib.sh
. /tests/device/lib
plan 31

run "load the driver" load_driver || exit 1

# A PF_CAN device carries no IP; a tunnel's hardware address is an IP address.
unsuitable() {
	local name=$1 netdev=$2
	shift 2
	if ip link add "$netdev" "$@"; then
		run "$name" says "Invalid argument" link_add bad "$netdev"
	else
		skip "$name" "this kernel has none"
	fi
}
unsuitable "no CAN device" vcan0 type vcan
unsuitable "no GRE tunnel" gre1 type gre local 10.9.9.1 remote 10.9.9.2
run "one device per network device" says "File exists" link_add bad eth0
ip link add dummy1 type dummy
# The core's own word for a name that is taken.
run "a name that is taken" says "Too many open files in system" link_add "$DEV" dummy1
run "a name with a percent sign" says "Invalid argument" link_add 'x%d' dummy1
run "a name that is too long" says "Invalid argument" link_add "$(printf 'x%.0s' {1..80})" dummy1
run "no such network device" says "No such device" link_add bad nonesuch
run "no such type" says "Invalid argument" rdma link add bad type nonesuch netdev dummy1
only_one() { rdma link; [ "$(rdma link | wc -l)" = 1 ]; }
run "nothing came of all that" only_one
fails "delete a device that is not there" rdma link del nonesuch

# kind NAME NETDEV ADDRESS: with an address, it carries connections.
port=7210
kind() {
	port=$((port + 1))
	ip link set "$2" up
	ip addr add "$3/24" dev "$2"
	run "$1" link_add "r_$2" "$2" || return
	wait_for 1 device_active "r_$2" || note "$(rdma link show "r_$2/1")"
	run "$1: a connection" ping "r_$2" "$3" "$port"
}
ip link add veth1 type veth peer name veth2
ip link set veth2 up
kind veth veth1 10.8.1.1
ip link add link veth2 name vlan1 type vlan id 7
kind "VLAN" vlan1 10.8.2.1
ip link add bond1 type bond
kind bond bond1 10.8.3.1
ip link add br1 type bridge
kind bridge br1 10.8.4.1
modprobe tun
ip tuntap add tun1 mode tun
kind "tun, which has no hardware address" tun1 10.8.5.1
kind dummy dummy1 10.8.6.1
kind lo lo 10.8.7.1

# Of a VLAN and its parent the RDMA core takes whichever it finds first.
ip link add link veth1 name vlan2 type vlan id 8
ip link set vlan2 up
ip addr add 10.8.8.1/24 dev vlan2
run "a VLAN beside its parent" link_add r_vlan2 vlan2
either() {
	local before after
	before=$(($(tx_messages r_vlan2) + $(tx_messages r_veth1)))
	ping "" 10.8.8.1 7229 || return
	after=$(($(tx_messages r_vlan2) + $(tx_messages r_veth1)))
	[ $((after - before)) -ge 40 ]
}
run "a connection by either of them" either
run "the parent still carries its own" ping r_veth1 10.8.1.1 7230

gids() {
	local all
	# Of those that have addresses of their own.
	all=$(for dev in "$DEV" r_veth1 r_vlan1 r_bond1 r_br1 r_tun1 r_dummy1 r_lo; do
		cat "/sys/class/infiniband/$dev/ports/1/gids/0"
	done)
	echo "$all"
	[ "$(sort -u <<<"$all" | wc -l)" = 8 ] && ! grep -q ^0000:0000:0000 <<<"$all"
}
run "each has a GID of its own" gids

# Of one of several, and only that.
gone() { rdma link del r_bond1 && ! rdma link show r_bond1/1 && device_active "$DEV" && device_active r_dummy1; }
run "rdma link del takes the one that it names" gone
again() { link_add r_bond1 bond1 && ping r_bond1 10.8.3.1 7231; }
run "and the name may be used again" again
