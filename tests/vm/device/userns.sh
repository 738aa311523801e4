#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# A user without rights who is root of a user namespace of their own (unshare -U), with a network namespace that
# belongs to it: as in a container without privileges. RDMA devices are shared (rdma system). That root may use
# a device that the host's root has made there, and gives it no right to make, change or remove one.

. /tests/lib.sh
. /tests/device/lib
plan 26

if ! unshare -U true; then
	skip_all "this kernel has none"
fi

# box NAME: starts the user's namespaces, with a sysfs of their own. in_box NAME COMMAND...: the user's root runs
# it there. host_in_box NAME COMMAND...: the host's root runs it in the user's network namespace.
box() { started "$1" ordinary unshare -Urnm sh -c 'mount -t sysfs sysfs /sys && echo "ready $$"; exec sleep 1000' && told "$1" ready; }
pid_of() { sed -n 's/^ready //p' "$WORK/$1"; }
in_box() { ordinary nsenter -t "$(pid_of "$1")" -U -n -m --preserve-credentials "${@:2}"; }
host_in_box() { nsenter -t "$(pid_of "$1")" -n "${@:2}"; }
# joined NAME NUMBER: a veth from here (10.8.NUMBER.1) to the box (10.8.NUMBER.2), which its own root configures.
joined() {
	ip link add "veth$2" type veth peer name inner netns "$(pid_of "$1")" &&
		ip addr add "10.8.$2.1/24" dev "veth$2" && ip link set "veth$2" up &&
		in_box "$1" ip addr add "10.8.$2.2/24" dev inner && in_box "$1" ip link set inner up &&
		in_box "$1" ip link set lo up
}
boxes() { box one && joined one 1 && in_box one id && in_box one ip -br addr; }

# forbidden COMMAND...: the user's root is told that it may not.
forbidden() { says "Operation not permitted" in_box one "$@"; }
no_more_devices() { rdma dev; [ "$(rdma dev show | wc -l)" = "$1" ]; }
unchanged() {
	local now
	now=$(grep . /sys/class/infiniband/"$DEV"/settings/*)
	[ "$now" = "$before" ] || { diff <(echo "$before") <(echo "$now"); return 1; }
}
# The files belong to the host's root, whom the user's namespace does not know.
no_setting() { says "Permission denied" in_box one sh -c "echo 0 >/sys/class/infiniband/$DEV/settings/crc" && unchanged; }
# Root of the host that has given up the host's rights, but is still the owner of the files.
root_sets() {
	says "Operation not permitted" unshare -Ur bash -c "echo $2 >/sys/class/infiniband/$DEV/settings/$1" && unchanged
}

# pings_in NAME ADDRESS PORT: rping of the user's root pings itself.
pings_in() {
	started server ordinary nsenter -t "$(pid_of "$1")" -U -n -m --preserve-credentials rping -s -a "$2" -p "$3" -C 20 -V
	host_in_box "$1" /tests/guest/listens "$3" 10 || return
	within 10 in_box "$1" rping -c -a "$2" -p "$3" -C 20 -V && ends server 5
}
uses_own() {
	local before after
	before=$(tx_messages there)
	pings_in one 10.8.1.2 7801 || return
	after=$(tx_messages there)
	echo "there sent $((after - before)) messages"
	[ $((after - before)) -ge 40 ]
}
pings_out() {
	started server rping -s -a 10.8.1.1 -p 7802 -C 20 -V
	listens 7802 || return
	within 10 in_box one rping -c -a 10.8.1.1 -p 7802 -C 20 -V && ends server 5
}
# The server has an address of this namespace's loopback device, and one of eth0. Nothing leads there from the box.
# (A client of rping's that cannot connect does not end. This one posts what siw's library refuses, once it has.)
out_of_reach() {
	local address
	load_on="$LO" && ip addr add "$LO/32" dev lo && rdma link add onlo type "$RSIW_DRIVER" netdev lo || return
	started server rping -s -P -a 0.0.0.0 -p 7803
	listens 7803 || return
	rping -c -a "$ADDR" -p 7803 -C 1 && rping -c -a "$load_on" -p 7803 -C 1 || return
	says "is not posted" fetchadd "$ADDR" 7803 || return
	for address in "$ADDR" "$LO"; do
		says "no queue pair: Network is unreachable" within 10 in_box one fetchadd "$address" 7803 || return
	done
	for address in 127.0.0.1 0.0.0.0; do
		says "no connection: Cannot assign requested address" within 10 in_box one fetchadd "$address" 7803 || return
	done
	rdma link del onlo
}
shown() { in_box one rdma res show cm_id | grep "state LISTEN .*:7803 "; }
no_keys() {
	local all
	started watch watch "$DEV" && told watch ready || return
	rdma -d res show mr | grep "lkey" || return
	all=$(in_box one rdma -d res show mr)
	echo "$all"
	[[ $all == *"dev $DEV "* ]] && [[ $all != *key* ]]
}
# A process makes a queue pair and prints its number; the user's root, who has every right in the user's own
# namespace, names it.
owner() {
	mkfifo "$WORK/owner.in"
	sleep 300 >"$WORK/owner.in" &
	started owner sh -c "naming connect $ADDR 7804 <$WORK/owner.in" && told owner '^qp ' 10
}
takes() {
	says ': Invalid argument' ordinary unshare -Ur naming connect "$ADDR" 7804 "$(sed -n 's/^qp //p' "$WORK/owner")"
}
no_psk() {
	local keyring
	keyring=$(awk '$8 == "keyring" && $9 == ".rsiw:" { print "0x" $1 }' /proc/keys)
	echo "the keyring is $keyring"
	keyctl rlist "$keyring" >/dev/null || return
	says "Permission denied" in_box one keyctl rlist "$keyring" &&
		says "Permission denied" in_box one keyctl padd user mine "$keyring" </dev/null
}

# Its own network device is in the hands of the user's root.
own_netdev() { in_box one ip link del inner && wait_for 5 device_gone there; }
again() {
	joined one 1 && host_in_box one rdma link add there type "$RSIW_DRIVER" netdev inner && add_device here veth1
}
busy_box() {
	local before
	before=$(tx_messages there)
	started client ordinary nsenter -t "$(pid_of one)" -U -n -m --preserve-credentials \
		rping -c -a 10.8.1.1 -p 7805 -C 100000000 -V -S 1000
	wait_for 10 more_than there $((before + 100))
}
box_ends() {
	started server rping -s -a 10.8.1.1 -p 7805 -V -S 1000
	listens 7805 && busy_box || return
	pkill -9 -u nobody -x rping
	kill -9 "$(pid_of one)"
	ends server 10 && wait_for 10 no_sockets 7805 && wait_for 20 device_gone there &&
		wait_for 20 test ! -e /sys/class/net/veth1
}
no_namespaces() { rdma system set netns exclusive && rdma system set netns shared; }

run "load the driver" load_driver || exit 1
before=$(grep . /sys/class/infiniband/"$DEV"/settings/*)
run "a user makes namespaces and is root there" boxes || exit 1
run "the user's root makes no RDMA device" forbidden rdma link add there type "$RSIW_DRIVER" netdev inner
run "the user's root removes no device of the host" forbidden rdma link del "$DEV"
run "the user's root renames no device of the host" forbidden rdma dev set "$DEV" name mine
run "the user's root does not change the namespace mode" forbidden rdma system set netns exclusive
run "the user's root binds no counter" forbidden rdma statistic qp set link "$DEV/1" auto type on
run "refused requests of the user's root change no device" no_more_devices 1
run "the user's root writes no setting" no_setting
run "host's root without the host's rights writes no setting" root_sets crc 0
run "host's root without the host's rights writes no names of peers" root_sets tls_names hosta
run "the user's root neither reads nor adds pre-shared keys" no_psk
run "the host's root makes a device in the user's namespace" \
	host_in_box one rdma link add there type "$RSIW_DRIVER" netdev inner
run "make a device on the other end of the veth" add_device here veth1
run "the user's root does not remove the device in its own namespace" forbidden rdma link del there
run "the user's root connects to itself over the device in its namespace" uses_own
run "the user's root connects to the host" pings_out
run "the user's root reaches no address of another namespace" out_of_reach
run "the user's root sees listeners of other namespaces in shared mode" shown
run "the user's root sees no keys of other processes' regions" no_keys
run "a process makes a queue pair" owner
run "the user's root cannot connect another process' queue pair" takes
run "the device goes with a network device that the user's root removes" own_netdev
run "the host's root makes devices for the user's namespace again" again
LIMIT=60 run "the end of the user's namespaces amid traffic ends connections and the device" box_ends
run "no network namespace stays" no_namespaces
