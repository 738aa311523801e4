#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
#
# From host to host over network devices other than the NIC: devices on top of it, and
# tunnels through it.

. /tests/lib.sh
. /tests/apps/lib
. /tests/device/lib

kinds=(vlan bond bridge vxlan wireguard)
plan $((${#kinds[@]} * 3 + 1))

# make KIND NUMBER: makes a network device of that kind and name on this host, with an
# address and an RDMA device. eth0 has no RDMA device: for an address of a VLAN the
# RDMA core takes the VLAN's device or its parent's, whichever it finds first.
make() {
	local host=1
	[ "$RSIW_SIDE" = a ] || host=2
	case $1 in
	vlan) ip link add link eth0 name vlan type vlan id "$2" ;;
	# Not with eth0 as a port, which the runner needs.
	bond) vlan_port "$2" && ip link add bond type bond mode active-backup && ip link set "port$2" master bond ;;
	bridge) vlan_port "$2" && ip link add bridge type bridge forward_delay 0 && ip link set "port$2" master bridge up ;;
	vxlan) ip link add vxlan type vxlan id "$2" local "$ADDR" remote "$PEER" dstport 4789 ;;
	wireguard)
		ip link add wireguard type wireguard &&
			python3 -B /tests/device/wireguard.py wireguard "$RSIW_SIDE" "$PEER"
		;;
	esac || return
	ip addr add "10.8.$2.$host/24" dev "$1" && ip link set "$1" up && add_device "r_$1" "$1"
}
# has KIND: whether this kernel has it. The debug kernel has no WireGuard.
has() { [ "$1" != wireguard ] || { ip link add probe type wireguard 2>/dev/null && ip link del probe; }; }
vlan_port() { ip link add link eth0 name "port$1" type vlan id "$1"; }
unmake() {
	rdma link del "r_$1" && ip link del "$1" || return
	[ ! -e "/sys/class/net/port$2" ] || ip link del "port$2"
}

# rping_over KIND NUMBER: rping's ends compare the data, and the device of that kind carries them.
rping_over() {
	local before after
	before=$(tx_messages "r_$1")
	try_rping "10.8.$2.2" 9000 10 || return
	after=$(tx_messages "r_$1")
	echo "r_$1 sent $((after - before)) messages"
	# Two Sends and a Read Response for each ping.
	[ $((after - before)) -ge 30 ]
}

run "load the driver on both hosts" both load_module "$RSIW_DRIVER" || exit 1
number=0
for kind in "${kinds[@]}"; do
	number=$((number + 1))
	if ! has "$kind"; then
		skip "both hosts make a device on $kind" "this kernel has none"
		skip "rping moves data over $kind" "this kernel has none"
		skip "both hosts delete the device on $kind" "this kernel has none"
		continue
	fi
	if run "both hosts make a device on $kind" both make "$kind" "$number"; then
		run "rping moves data over $kind" rping_over "$kind" "$number"
	else
		not_ok "rping moves data over $kind" "no devices"
	fi
	run "both hosts delete the device on $kind" both unmake "$kind" "$number"
done
