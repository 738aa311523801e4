#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# time: virtual
# pairs: rsiw,rsiw
#
# The network device of a link is in a VRF: connections and listeners inside of the VRF (`ip vrf exec`) and outside
# of it, where the RDMA CM finds the device by the address that the program names. And programs of cgroups, by
# which `ip vrf exec` works, at the creation of sockets.

. /tests/lib.sh
. /tests/device/lib
. /tests/net/lib
. /tests/perftest/lib
[ "$RSIW_KERNEL" = debug ] || modprobe vrf
[ -e /sys/module/vrf ] || skip_all "this kernel has no VRFs"
plan 28

in_red() { ip vrf exec red "$@"; }
# Enslaving takes eth0 down and up, which would take its IPv6 addresses.
make_vrfs() {
	sysctl -qw net.ipv6.conf.eth0.keep_addr_on_down=1
	ip link add red type vrf table 100 && ip link add blue type vrf table 200 &&
		ip link set red up && ip link set blue up && ip link set eth0 master red &&
		wait_for 10 device_active "$DEV" && wait_for 20 in_red ping -c 1 -W 1 "$PEER" &&
		wait_for 20 in_red ping -c 1 -W 1 "$PEER6"
}
l3mdev_accept() { sysctl -qw net.ipv4.tcp_l3mdev_accept="$1"; }

# outward PORT SERVER SOURCE [COMMAND...]: rping on this host, run by the command, connects to a server of the peer's.
outward() {
	local port=$1 server=$2 source=$3
	shift 3
	peer_bg out rping -s -a "$server" -p "$port" -C 5
	peer_listens "$port" || return
	if within 20 "$@" rping -c -a "$server" -I "$source" -p "$port" -C 5; then
		peer_end out
	else
		peer_kill out
		return 1
	fi
}
# inward PORT SERVER ADDRESS [COMMAND...]: rping of the peer connects to SERVER, this host, where one listens at ADDRESS.
inward() {
	local port=$1 server=$2 address=$3
	shift 3
	started in "$@" rping -s -a "$address" -p "$port" -C 5
	listens "$port" || { cat "$WORK/in"; return 1; }
	if peer timeout "$(limit 20)" rping -c -a "$server" -p "$port" -C 5; then
		ends in 10
	else
		pkill -x rping
		return 1
	fi
}
# Nobody of the VRF listens for this.
not_in() {
	local status
	started in ip vrf exec blue rping -s -a 0.0.0.0 -p "$1" -C 5
	wait_for 10 listens_in_cm "$1" || return
	peer timeout "$(limit 20)" rping -c -a "$ADDR" -p "$1" -C 5
	status=$?
	pkill -x rping
	[ "$status" != 0 ] && [ "$status" != 124 ]
}
listens_in_cm() { rdma resource show cm_id | grep "LISTEN.*:$1\b"; }
bandwidth() {
	local status
	peer_bg server ib_send_bw -R -d "$PEER_DEV" -s 4096 -n 100
	peer_listens 18515 || return
	within 20 ib_send_bw -R -d "$DEV" --bind_source_ip "$ADDR" -s 4096 -n 100 "$PEER"
	status=$?
	[ "$status" = 0 ] || { peer_kill server; return 1; }
	peer_end server
}
# A server at an address of this host, and a client at the same address.
self() {
	started in rping -s -a "$ADDR" -p "$1" -C 5
	listens "$1" && within 20 rping -c -a "$ADDR" -I "$ADDR" -p "$1" -C 5 && ends in 10
}
no_binds() { says "Cannot assign requested address" timeout 10 ip vrf exec blue rping -c -a "$PEER" -I "$ADDR" -p 7600 -C 1; }
# Without a right, in the VRF. The core asks for one where a socket is restricted twice.
unprivileged() { in_red setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }

# vlan VRF: VLAN 5 of eth0 on both hosts, on this one in a VRF, or in `none`. The link on eth0 serves its addresses.
vlan() {
	both add_vlan || return
	if [ "$1" = none ]; then
		wait_for 10 ping -c 1 -W 1 10.8.5.2
	else
		ip link set eth0.5 master "$1" && wait_for 10 ip vrf exec "$1" ping -c 1 -W 1 10.8.5.2
	fi
}
add_vlan() {
	ip link add link eth0 name eth0.5 type vlan id 5 && ip link set eth0.5 up &&
		ip addr add "10.8.5.${ADDR##*.}/24" dev eth0.5
}
drop_vlan() { ip link del eth0.5; }

run "load the driver on both hosts" both load_driver || exit 1
run "eth0 is in a VRF" make_vrfs || exit 1

run "a client with a source address connects over IPv4" outward 7601 "$PEER" "$ADDR"
run "a client with a source address connects over IPv6" outward 7602 "$PEER6" "$ADDR6"
run "a client inside of the VRF connects over IPv4" outward 7603 "$PEER" "$ADDR" in_red
run "a client inside of the VRF connects over IPv6" outward 7604 "$PEER6" "$ADDR6" in_red
run "a client without rights inside of the VRF connects" outward 7605 "$PEER" "$ADDR" unprivileged
run "a client inside of another VRF has no such address" no_binds
run "ib_send_bw with a source address connects" bandwidth
run "a host in a VRF connects to itself" self 7606
port=7610
for accept in 0 1; do
	run "TCP accepts across VRFs: $accept" l3mdev_accept "$accept"
	run "a listener at an IPv4 address takes a connection, tcp_l3mdev_accept $accept" inward "$((port += 1))" "$ADDR" "$ADDR"
	run "a listener at an IPv6 address takes a connection, tcp_l3mdev_accept $accept" inward "$((port += 1))" "$ADDR6" "$ADDR6"
	run "a listener at the wildcard takes a connection over IPv4, tcp_l3mdev_accept $accept" inward "$((port += 1))" "$ADDR" 0.0.0.0
	run "a listener at the wildcard takes a connection over IPv6, tcp_l3mdev_accept $accept" inward "$((port += 1))" "$ADDR6" ::
done
l3mdev_accept 0
run "a listener at an address inside of the VRF takes a connection" inward 7621 "$ADDR" "$ADDR" in_red
run "a listener at the wildcard inside of the VRF takes a connection" inward 7622 "$ADDR" 0.0.0.0 in_red
run "a listener without rights at the wildcard inside of the VRF takes a connection" inward 7623 "$ADDR" 0.0.0.0 unprivileged
run "a listener at the wildcard inside of another VRF takes no connection" not_in 7624

run "a VLAN of eth0 is in no VRF" vlan none
run "a client connects by a VLAN that is in no VRF" outward 7631 10.8.5.2 10.8.5.1
both drop_vlan
run "a VLAN of eth0 is in another VRF" vlan blue
run "a client connects by a VLAN that is in another VRF" outward 7632 10.8.5.2 10.8.5.1
both drop_vlan
ip link set eth0 nomaster
ip link del red
ip link del blue
# What `ip vrf exec` has made.
find /sys/fs/cgroup -depth -type d -path '*/vrf*' -exec rmdir {} +
