#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 180
# kernel: stock
# pairs: rsiw,rsiw
#
# rsiw-doctor: one thing at a time is broken. The doctor has to name it, with the exit status that goes with it;
# the command that it suggests is run; and then it has to find nothing wrong.

. /tests/lib.sh
. /tests/rc/lib
plan 68

# --- what a test is made of ---------------------------------------------------

# finds STATUS PATTERN ARGUMENT...: the doctor says so, as LEVEL TOPIC TEXT. The commands that mend it are in $WORK/mend.
finds() {
	local status=0 wanted=$1 pattern=$2
	shift 2
	"${AS[@]}" rsiw-doctor "$@" >"$WORK/said" 2>&1 || status=$?
	cat "$WORK/said"
	# Commands are indented, below the line that says what is wrong.
	awk -v pattern="$pattern" '/^ / { if (found) print; next } { found = $0 ~ pattern }' "$WORK/said" >"$WORK/mend"
	[ "$status" = "$wanted" ] || { echo "status $status, not $wanted"; return 1; }
	grep -qE "$pattern" "$WORK/said" || { echo "it does not say: $pattern"; return 1; }
}
# Whose rights the doctor has.
AS=()
as_nobody() { local AS=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all); "$@"; }
# fine ARGUMENT...: nothing is wrong, and --quiet says nothing. A device may take a moment to become active.
is_fine() { "${AS[@]}" rsiw-doctor --quiet "$@" >"$WORK/said" 2>&1 && [ ! -s "$WORK/said" ]; }
fine() { wait_for 25 is_fine "$@" || { cat "$WORK/said"; return 1; }; }
# Runs the first of the commands. Guests have no sudo.
mend() {
	local command
	read -r command <"$WORK/mend"
	echo "\$ $command"
	[ -n "$command" ] && bash -c "sudo() { \"\$@\"; }; $command"
}
# shellcheck disable=SC2120 # most have no arguments
mended() { mend && fine "$@"; }
# It says so no more, while something else is still wrong.
no_more() {
	mend || return
	rsiw-doctor >"$WORK/said" 2>&1
	cat "$WORK/said"
	! grep -qE "$1" "$WORK/said"
}

# --- module, modules, device --------------------------------------------------

# The kernel's modules are on a disk that cannot be written. These, and rsiw, make a tree of their own, which
# takes depmod a second, and not half a minute.
own_modules() {
	local tree
	tree=/usr/lib/modules/$(uname -r)
	mkdir -p "$WORK/tree$tree/updates"
	modprobe -aD ib_uverbs rdma_ucm iw_cm veth nf_tables nft_reject_inet | awk '$1 == "insmod" { print $2 }' |
		sort -u | xargs cp -t "$WORK/tree$tree/updates" /build/rsiw.ko || return
	cp "$tree"/modules.builtin* "$tree/modules.order" "$WORK/tree$tree/"
	depmod -b "$WORK/tree/usr" && mount --bind "$WORK/tree/usr/lib/modules" /usr/lib/modules
}
at_exit() {
	local status=$?
	umount /usr/lib/modules 2>/dev/null
	[ ! -e "$WORK/siw.driver" ] || cp "$WORK/siw.driver" /etc/libibverbs.d/
	rm -rf /etc/rsiw/links.d/doctor-test.conf
	(exit "$status")
	_at_exit
}

run "install the module" own_modules || exit 1
trap at_exit EXIT
run "load the driver on the peer" peer_sh load_driver || exit 1

run "the doctor finds that the module is not loaded" finds 2 "^FAIL module +rsiw is not loaded"
run "its command loads the module" no_more "rsiw is not loaded"
run "the doctor finds that there is no device" finds 2 "^FAIL link +there is no rsiw device"
run "its command makes a device" mended
rmmod rdma_ucm ib_uverbs
run "the doctor finds that rdma_ucm is not loaded" finds 2 "^FAIL modules +rdma_ucm"
run "its command loads rdma_ucm" mended
rmmod rdma_ucm ib_uverbs
run "the doctor finds that ib_uverbs is not loaded" finds 2 "^FAIL modules +ib_uverbs"
run "its command loads ib_uverbs" no_more "ib_uverbs is not loaded"
modprobe rdma_ucm

# --- links, addresses, routes -------------------------------------------------

ip link set eth0 down
run "the doctor finds that the network device is down" finds 2 "^FAIL netdev +eth0.* is down"
run "its command sets the network device up" mended
ip addr flush dev eth0 scope global
run "the doctor finds that there is no address" finds 2 "^FAIL address +eth0 has no address"
# shellcheck disable=SC2119
with_address() { sed -i "s,ADDRESS/PREFIX,$ADDR/24," "$WORK/mend" && mended; }
run "its command gives the network device an address" with_address

mkdir -p /etc/rsiw/links.d
ip link add veth1 type veth peer name veth2
ip link set veth1 up
ip link set veth2 up
printf '# A test\n netdev = veth1\nname=second\n' >/etc/rsiw/links.d/doctor-test.conf
run "the doctor finds that a link of links.d is missing" finds 2 "^FAIL links.d +.*second is missing"
run "its command makes the link" mended rsiw0
rm /etc/rsiw/links.d/doctor-test.conf
rdma link del second

ip route add "$PEER/32" dev veth1
run "the doctor finds that the route goes elsewhere" finds 2 "^FAIL route +the route to $PEER leaves by veth1" \
	--peer "$PEER"
run "its command mends the route" mended --peer "$PEER"
ip route del "$PEER/32"
ip link del veth1

ip netns add ns1
ip link add veth1 type veth peer name veth2 netns ns1
ip -n ns1 addr add 10.8.1.2/24 dev veth2
ip link set veth1 up
ip -n ns1 link set veth2 up
ip netns exec ns1 rdma link add there type rsiw netdev veth2
run "the doctor finds that a device is in another namespace" finds 2 "^FAIL namespace +there .*namespace ns1" there
run "its command examines the device in its namespace" mend
run "a device of another namespace is nothing to worry about" fine
ip netns del ns1
wait_for 10 device_gone there

# --- what programs need -------------------------------------------------------

small() { ulimit -S -l 64 && as_nobody finds 2 "^FAIL memlock +nobody may lock 64 KiB"; }
run "the doctor finds a small limit of locked memory" small
# The limit is the shell's, so the command has to run in it.
larger() { ulimit -S -l 64 && eval "$(head -n 1 "$WORK/mend")" && [ "$(ulimit -l)" = unlimited ] && as_nobody fine; }
run "its command raises the limit" larger
wanted() { ulimit -S -l 65536 && as_nobody finds 2 "^FAIL memlock +nobody may lock 64 MiB" --memory 65; }
run "the doctor finds a limit below what a program wants" wanted

driver=/etc/libibverbs.d/siw.driver
cp "$driver" "$WORK/siw.driver"
rm "$driver"
run "the doctor finds that the provider's file is missing" finds 2 "^FAIL provider +$driver"
run "its command writes the provider's file" mended
same_driver() { diff "$WORK/siw.driver" "$driver"; }
run "the provider's file is as it was" same_driver
library=$(echo /usr/lib/*/libibverbs/libsiw-rdmav*.so)
mv "$library" "$WORK/"
run "the doctor finds that the provider's library is missing" finds 2 "^FAIL provider +the provider siw .*not installed"
mv "$WORK/${library##*/}" "$library"

# There is no udevd here to do as its commands say. nobody has one group.
opened_by_group() { grep -q 'GROUP="rdma", MODE="0660"' "$WORK/mend" && chgrp nogroup "$1" && chmod 0660 "$1" && as_nobody fine; }
for node in uverbs0 rdma_cm; do
	chmod 0600 "/dev/infiniband/$node"
	run "the doctor finds that a user may not open $node" as_nobody finds 2 "^FAIL nodes +nobody .*/$node"
	run "a group lets the user open $node" opened_by_group "/dev/infiniband/$node"
	chmod 0666 "/dev/infiniband/$node"
done

settings=/sys/class/infiniband/rsiw0/settings
echo 1 >"$settings/port_mapper"
run "the doctor finds that iwpmd does not run" finds 2 "^FAIL portmapper +rsiw0 has port_mapper=1"
run "its command starts iwpmd" mended
pkill -x iwpmd
echo 0 >"$settings/port_mapper"

cgroup=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
echo +rdma >/sys/fs/cgroup/cgroup.subtree_control
echo "rsiw0 hca_handle=0" >"$cgroup/rdma.max"
run "the doctor finds that the cgroup has no RDMA objects left" finds 2 "^FAIL cgroup .* 0 of at most 0 hca_handle"
run "its command lets the cgroup have RDMA objects" mended
echo -rdma >/sys/fs/cgroup/cgroup.subtree_control

# --- servers and peers --------------------------------------------------------

rping -s -P -a "$ADDR" -p 7811 >"$WORK/rping" 2>&1 &
server=$!
run "an RDMA server listens here" listens 7811
run "the doctor has nothing against it" fine --port 7811
nft 'add table inet t; add chain inet t input { type filter hook input priority 0; policy accept; }
	add rule inet t input tcp dport 7800-7899 drop'
run "the doctor finds the rule that drops the port" finds 2 \
	"^FAIL firewall +a rule drops .inet t input: tcp dport 7800-7899 drop. .* 7811" --port 7811
# Its command is for the peers that the reader puts in.
from_peer() { grep -q "ip saddr FROM tcp" "$WORK/mend" && sed -i "s/saddr FROM/saddr $PEER/" "$WORK/mend" && mended "$@" --peer "$PEER"; }
run "its command lets connections from a peer pass" from_peer --port 7811
run "the peer reaches the server" peer rping -c -a "$ADDR" -p 7811 -C 1
nft flush ruleset
run "the doctor finds that nobody listens here" finds 2 "^FAIL port +nobody listens on port 7812" --port 7812
kill "$server"

run "the doctor finds that nobody listens at the peer" finds 2 "^FAIL port +nobody listens on port 7813 of $PEER" \
	--peer "$PEER:7813"
# It suggests a server for the peer, which waits for one client.
peer_bg rping bash -c "$(head -n 1 "$WORK/mend")"
run "its command starts a server on the peer" server_up 7813
run "the doctor sees which iWARP the peer speaks" finds 0 "^ok +port .*MPA revision 2, CRCs on, IRD" --peer "$PEER:7813"

peer_bg echo socat TCP-LISTEN:7814,fork EXEC:cat
peer_bg mute socat -u TCP-LISTEN:7815,fork OPEN:/dev/null
server_up 7814 && server_up 7815
run "the doctor finds a TCP program that talks" finds 2 "^FAIL port +a TCP program" --peer "$PEER:7814"
run "the doctor finds a TCP program that is silent" finds 2 "^FAIL port +port 7815 .*not answer an MPA" --peer "$PEER:7815"
run "the doctor only connects if it shall" fine --no-mpa --peer "$PEER:7815"

peer nft 'add table inet t; add chain inet t input { type filter hook input priority 0; policy accept; }
	add rule inet t input tcp dport 7816 drop'
run "the doctor finds that the peer drops the port" finds 2 "^FAIL port +$PEER does not answer at port 7816" \
	--peer "$PEER:7816"
# rule_there PORT: its command is for the peer; the doctor there knows the rule.
rule_there() {
	peer_sh "$(sed -n 's/^ *sudo \(rsiw-doctor .*\)/\1/p' "$WORK/mend")" >"$WORK/said"
	cat "$WORK/said"
	grep -q "^FAIL firewall .*tcp dport $1 drop" "$WORK/said"
}
run "its command finds the rule on the peer" rule_there 7816
peer nft flush ruleset
nft 'add table inet t; add chain inet t output { type filter hook output priority 0; policy accept; }
	add rule inet t output tcp dport 7814 reject'
run "the doctor finds a rule that drops what this host sends" finds 2 \
	"^FAIL firewall +a rule drops .inet t output: tcp dport 7814 reject.* to $PEER" --peer "$PEER:7814" --no-mpa
run "its command lets this host connect" mended --peer "$PEER:7814" --no-mpa
nft flush ruleset

# Packets of full size vanish on the way, and nobody tells.
peer nft 'add table inet t; add chain inet t hole { type filter hook prerouting priority -300; }
	add rule inet t hole meta length > 1400 drop'
run "the doctor finds that large packets vanish" finds 2 "^FAIL mtu .*of 1500 bytes.*those of 1400 arrive" --peer "$PEER"
run "its command sets an MTU that fits" mended --peer "$PEER"
peer nft flush ruleset
ip link set eth0 mtu 1500

# --- links of type rsiw_rc ----------------------------------------------------

run "make links of type rsiw_rc" both eval ". /tests/rc/lib; rc_add rc0 eth0"
index() { wait_for 25 gid_index "$ADDR" && finds 0 "^ok +gid +rc0: $ADDR is GID index $(gid_index "$ADDR") " rc0; }
run "the doctor tells the index of an address" index
socat TCP-LISTEN:4791 EXEC:cat &
server=$!
listens 4791
run "the doctor finds that a program has the port of queue pairs" finds 2 "^FAIL rc_port +socat listens on TCP port 4791" rc0
kill "$server"
run "the port is free again" fine rc0
nft 'add table inet t; add chain inet t input { type filter hook input priority 0; policy accept; }
	add rule inet t input tcp dport 4791 drop'
run "the doctor finds the rule that drops the port" finds 2 "^FAIL firewall +a rule drops .* 4791 from peers" rc0
run "its command lets queue pairs of a peer pass" from_peer rc0
nft flush ruleset
run "a peer without a queue pair that waits has no fault" finds 0 "^skip +rc_port +no queue pair of $PEER waits" \
	rc0 --peer "$PEER"
peer nft 'add table inet t; add chain inet t input { type filter hook input priority 0; policy accept; }
	add rule inet t input tcp dport 4791 drop'
run "the doctor finds that the peer drops the port of queue pairs" finds 2 \
	"^FAIL rc_port +$PEER does not answer at TCP port 4791" --peer "$PEER" rc0
run "its command finds that rule on the peer" rule_there 4791
peer nft flush ruleset
# The GIDs of lo are those of the addresses that it had when the link was made.
rc_add rc_lo lo
ip addr add 10.99.0.1/32 dev lo
run "the doctor finds that an address has no GID" finds 1 "^warn gid +rc_lo has no GID for 10.99.0.1: " rc_lo
run "its command makes the GID" mended rc_lo
rdma link del rc_lo
rdma link del rc0
ip addr del 10.99.0.1/32 dev lo

# --- the command --------------------------------------------------------------

usage() { local status=0; rsiw-doctor --port nonsense || status=$?; [ "$status" = 64 ]; }
run "wrong options have a status of their own" usage
json() {
	rsiw-doctor --json rsiw0 >"$WORK/json" && python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
assert said["status"] == 0 and any(f["topic"] == "link" and f["level"] == "ok" for f in said["findings"]), said
' "$WORK/json"
}
run "the report for machines is JSON" json
missing() { finds 2 "^FAIL link +there is no rsiw device nothing" nothing; }
run "the doctor finds that a device does not exist" missing
