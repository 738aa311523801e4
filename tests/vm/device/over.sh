#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
#
# From host to host over network devices that are not the NIC itself: what stands
# on it, and what goes through it.

. /tests/lib.sh
. /tests/apps/lib
. /tests/device/lib

kinds=(vlan bond bridge vxlan wireguard)
plan $((${#kinds[@]} * 3 + 1))

# make KIND NUMBER: on this host, a network device of that name, with an address,
# and an RDMA device on it. There is none on eth0: of a VLAN and its parent the
# RDMA core takes whichever it finds first.
make() {
	local host=1
	[ "$RSIW_SIDE" = a ] || host=2
	case $1 in
	vlan) ip link add link eth0 name vlan type vlan id "$2" ;;
	# Not of eth0: that is the runner's.
	bond) port "$2" && ip link add bond type bond mode active-backup && ip link set "port$2" master bond ;;
	bridge) port "$2" && ip link add bridge type bridge forward_delay 0 && ip link set "port$2" master bridge up ;;
	vxlan) ip link add vxlan type vxlan id "$2" local "$ADDR" remote "$PEER" dstport 4789 ;;
	wireguard)
		ip link add wireguard type wireguard &&
			python3 -B /tests/device/wireguard.py wireguard "$RSIW_SIDE" "$PEER"
		;;
	esac || return
	ip addr add "10.8.$2.$host/24" dev "$1" && ip link set "$1" up && add_device "r_$1" "$1"
}
# Whether this kernel has it: the debug kernel has no WireGuard.
has() { [ "$1" != wireguard ] || { ip link add probe type wireguard 2>/dev/null && ip link del probe; }; }
port() { ip link add link eth0 name "port$1" type vlan id "$1"; }
unmake() {
	rdma link del "r_$1" && ip link del "$1" || return
	[ ! -e "/sys/class/net/port$2" ] || ip link del "port$2"
}

# Both ends compare the data; and it is this device that carried them.
pings() {
	local before after
	before=$(tx_messages "r_$1")
	try_rping "10.8.$2.2" 9000 10 || return
	after=$(tx_messages "r_$1")
	echo "r_$1 sent $((after - before)) messages"
	# Two Sends and the answer to a Read for each.
	[ $((after - before)) -ge 30 ]
}

run "load the driver on both hosts" both load_module "$RSIW_DRIVER" || exit 1
number=0
for kind in "${kinds[@]}"; do
	number=$((number + 1))
	if ! has "$kind"; then
		for _ in 1 2 3; do
			skip "$kind" "this kernel has none"
		done
		continue
	fi
	if run "$kind: a device on each host" both make "$kind" "$number"; then
		run "$kind: pings with data" pings "$kind" "$number"
	else
		not_ok "$kind: pings with data" "no devices"
	fi
	run "$kind: the devices can be deleted" both unmake "$kind" "$number"
done
