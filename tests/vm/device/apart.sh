#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
# pairs: rsiw,*
#
# What one network namespace sees of another's RDMA devices, ports and addresses, and reaches: nothing, in exclusive
# mode (rdma system set netns exclusive). And a device that moves to another namespace in the middle of its use.

. /tests/lib.sh
. /tests/device/lib
plan 33

# ns1 has the device "there", for the host's "here"; ns2 has a veth and no device.
namespaces() {
	local n
	for n in 1 2; do
		ip netns add "ns$n" && ip link add "veth$n" type veth peer name inner netns "ns$n" &&
			ip addr add "10.8.$n.1/24" dev "veth$n" && ip link set "veth$n" up &&
			ip -n "ns$n" addr add "10.8.$n.2/24" dev inner && ip -n "ns$n" link set inner up &&
			ip -n "ns$n" link set lo up || return
	done
	mkdir -p /run/netns
	ip netns attach first $$ && add_device here veth1 && in_ns rdma link add there type "$RSIW_DRIVER" netdev inner
}
in_ns2() { ip netns exec ns2 "$@"; }

# used: objects of each kind, a listener and a connection of either namespace.
used() {
	started in1 ip netns exec ns1 rping -s -P -a 10.8.1.2 -p 7901 -V -S 1000 && started out rping -s -P -a 10.8.1.1 -p 7902 &&
		in_ns /tests/guest/listens 7901 10 && listens 7902 &&
		started client rping -c -a 10.8.1.2 -p 7901 -C 100000000 -V -S 1000 &&
		wait_for 10 more_than here 100
}
# all_of NAMESPACE: everything that it is told of RDMA devices.
all_of() {
	local kind
	for kind in ctx pd cq mr qp srq cm_id; do
		ip netns exec "$1" rdma -dd res show "$kind"
	done
	ip netns exec "$1" rdma dev show
	ip netns exec "$1" rdma link show
	ip netns exec "$1" rdma statistic show
	ip netns exec "$1" sh -c 'ls -1 /sys/class/infiniband; grep -H . /sys/class/infiniband/*/ports/1/hw_counters/tx_messages'
}
# shows NAMESPACE DEVICE...: these and no others, and of each its queue pairs and listeners.
shows() {
	local all name ns=$1
	all=$(all_of "$ns" 2>/dev/null)
	shift
	grep -v '^    ' <<<"$all"
	for name in there here "$DEV"; do
		case " $* " in
		*" $name "*)
			[ "$name" = "$DEV" ] || { grep -q "link $name/.*state LISTEN" <<<"$all" &&
				grep -q "link $name/1 .*state ACTIVE" <<<"$all" && grep -qx "link $name/1 " <<<"$all" &&
				grep -q "^/sys/class/infiniband/$name/ports" <<<"$all"; } || { echo "$name is not complete"; return 1; }
			;;
		*) ! grep -w "$name" <<<"$all" || { echo "$name is seen in $ns"; return 1; } ;;
		esac
	done
}
# opens NAMESPACE: how many of the files for verbs a process there can open.
opens() {
	ip netns exec "$1" bash -c 'n=0; for f in /dev/infiniband/uverbs*; do ( : <"$f" ) 2>/dev/null && n=$((n + 1)); done; echo $n'
}
files() {
	echo "first $(opens first), ns1 $(opens ns1), ns2 $(opens ns2)"
	[ "$(opens first)" = 2 ] && [ "$(opens ns1)" = 1 ] && [ "$(opens ns2)" = 0 ]
}
no_way_to() {
	local status=0
	within 10 ip netns exec "$1" rping -c -a "$2" -p "$3" -C 1 || status=$?
	[ "$status" != 0 ] && [ "$status" != 124 ]
}
# One port, three listeners: of this namespace, of ns1, and a TCP program's of ns2.
one_port() {
	started a rping -s -P -a 0.0.0.0 -p 7903 && started b ip netns exec ns1 rping -s -P -a 0.0.0.0 -p 7903 &&
		started c ip netns exec ns2 python3 -c "$tcp_server" && listens 7903 &&
		in_ns /tests/guest/listens 7903 10 && in_ns2 /tests/guest/listens 7903 10
}
tcp_server='import socket, time
s = socket.create_server(("0.0.0.0", 7903))
time.sleep(1000)'
each_its_own() {
	local name
	within 10 rping -c -a 10.8.1.2 -p 7903 -C 3 && within 10 in_ns rping -c -a 10.8.1.1 -p 7903 -C 3 &&
		within 10 rping -c -a "$ADDR" -p 7903 -C 3 || return
	for name in a b; do
		grep -c 'DISCONNECT EVENT' "$WORK/$name"
	done
	[ "$(grep -c 'DISCONNECT EVENT' "$WORK/a")" = 2 ] && [ "$(grep -c 'DISCONNECT EVENT' "$WORK/b")" = 1 ]
}
# A TCP program of the namespace has the port.
taken() {
	local status=0
	started t ip netns exec ns1 python3 -c "${tcp_server/7903/7908}"
	in_ns /tests/guest/listens 7908 10 || return
	says "in use" in_ns rping -s -a 10.8.1.2 -p 7908 || status=1
	stop t
	return "$status"
}
# The same port is free here.
free() { rping_self here 10.8.1.1 7908; }
# Addresses that another namespace has, and that lead nowhere from here.
nowhere() {
	no_way_to ns1 "$ADDR" 7903 && no_way_to ns2 "$ADDR" 7903 && no_way_to ns2 10.8.1.2 7903 &&
		no_way_to ns1 127.0.0.1 7903 && no_way_to ns2 127.0.0.1 7903
}
stop() { local name; for name; do kill "$(<"$WORK/$name.pid")"; ends "$name" 10; done; }
ended() {
	pkill -x rping
	[ ! -e "$WORK/c.pid" ] || pkill -P "$(<"$WORK/c.pid")" || kill "$(<"$WORK/c.pid")"
	wait_for 10 nothing_left
}

# --- the port mapper, of which the host has one, in the first namespace ------------
. /tests/iser/lib
# All devices have it choose their ports. Besides, 10.8.9.9 is an address here, and another one in ns1.
mapper() {
	local name
	ip link add same0 type dummy && ip addr add 10.8.9.9/24 dev same0 && ip link set same0 up &&
		add_device same same0 && ip -n ns1 link add same1 type dummy &&
		ip -n ns1 addr add 10.8.9.9/24 dev same1 && ip -n ns1 link set same1 up &&
		in_ns rdma link add same type "$RSIW_DRIVER" netdev same1 || return
	for name in "$DEV" here same; do
		echo 1 >"/sys/class/infiniband/$name/settings/port_mapper" || return
	done
	in_ns sh -c 'echo 1 >/sys/class/infiniband/there/settings/port_mapper' && start_mapper
}
listening_id() { rdma res show cm_id | grep "link $1/.*state LISTEN.*:$2 "; }
mapped_here() {
	started mapped rping -s -P -a 10.8.9.9 -p 7904
	wait_for 10 listening_id same 7904 || return
	ss -Hltn
	! ss -Hltn 'sport = :7904' | grep . && within 10 rping -c -a 10.8.9.9 -p 7904 -C 3
}
unmapped_there() {
	started unmapped ip netns exec ns1 rping -s -P -a 0.0.0.0 -p 7904
	in_ns /tests/guest/listens 7904 10
	local status=$?
	in_ns ss -Hltn
	return "$status"
}
asked_there() {
	within 10 in_ns rping -c -a 10.8.9.9 -p 7904 -C 3 && grep 'DISCONNECT EVENT' "$WORK/unmapped"
}
no_mapper() {
	local name
	stop mapped
	stop unmapped
	for name in "$DEV" here; do
		echo 0 >"/sys/class/infiniband/$name/settings/port_mapper"
	done
	in_ns sh -c 'echo 0 >/sys/class/infiniband/there/settings/port_mapper'
	pkill -9 -x iwpmd && ip link del same0 && wait_for 5 device_gone same
}

# --- a device that moves ------------------------------------------------------
third() {
	ip link add third0 type dummy && ip link set third0 up && ip addr add 10.8.3.1/24 dev third0 &&
		add_device third third0
}
move_busy() { within 15 rdma dev set third netns ns2; }
only_in_ns2() { in_ns2 rdma dev show | grep ": third:" && ! rdma dev show | grep ": third:"; }
# Its interface is elsewhere, so nothing leads to it, and a listener opens no port on either side.
useless() {
	local status=0
	started d ip netns exec ns2 rping -s -P -a 0.0.0.0 -p 7905
	wait_for 10 listening_in_ns2 || { in_ns2 rdma res show cm_id; cat "$WORK/d"; status=1; }
	! ss -Hltn 'sport = :7905' | grep . || status=1
	! in_ns2 ss -Hltn 'sport = :7905' | grep . || status=1
	no_way_to ns2 10.8.3.1 7905 || status=1
	stop d
	return "$status"
}
listening_in_ns2() { in_ns2 rdma res show cm_id | grep "link third/.*state LISTEN.*:7905 "; }
# A process that has the device's file open leaves ns2, which ends then.
hold() {
	started holder ip netns exec ns2 bash -c 'for file in /dev/infiniband/uverbs*; do
		{ exec 3<>"$file"; } 2>/dev/null && echo "ready $$ $file" && exec nsenter --net=/run/netns/first sleep 1000
	done'
	told holder ready && cat "$WORK/holder"
}
come_back() { ip netns del ns2 && wait_for 20 sees third; }
sees() { rdma dev show | grep ": $1:"; }
shared_again() {
	kill -9 "$(<"$WORK/holder.pid")"
	ip netns del ns1 && wait_for 20 device_gone there && wait_for 20 rdma system set netns shared
}

run "load the driver" load_driver || exit 1
# This file tells the runner to leave exclusive mode if the job does not come to its end.
touch /run/rsiw/exclusive
run "switch to exclusive mode" rdma system set netns exclusive || exit 1
run "make namespaces with and without a device" namespaces || exit 1
run "start listeners and a connection of two namespaces" used
run "the first namespace is shown its own devices, objects and counters only" shows first here "$DEV"
run "a namespace is shown its own device, objects and counters only" shows ns1 there
run "a namespace without a device is shown none" shows ns2
run "a process opens the files of its namespace's devices only" files
run "objects end with their processes" ended
run "two RDMA programs and a TCP program listen on one port of three namespaces" one_port
run "each listener of one port has the peers of its own address" each_its_own
run "a port that a TCP program of the namespace has is refused" taken
run "a port that a TCP program of another namespace has is free" free
run "no address of another namespace without a route is reached" nowhere
run "listeners end with their processes" ended
run "start the port mapper in the first namespace" mapper
run "the port mapper chooses the port of a listener in its namespace" mapped_here
run "the port mapper chooses no port of a listener in another namespace" unmapped_there
run "the port mapper sends no connection of another namespace elsewhere" asked_there
run "the port mapper ends" no_mapper
run "make a third device" third
run "a process holds the third device" watching third
run "start connections and listeners on the third device" busy 10.8.3.1 third
run "a busy device moves to another namespace" move_busy
run "a process is told that its device has moved" saw_the_end
run "the move of a device ends connections and leaves no socket" busy_ends
run "a device that moved is seen in its new namespace only" only_in_ns2
run "a device without its interface's namespace listens and connects nowhere" useless
run "a process takes the device's file out of the namespace" hold
run "the end of a namespace brings a device that was moved there back" come_back
run "a device that came back moves data" rping_self third 10.8.3.1 7906
run "shared mode returns when the namespaces are deleted" shared_again
rm -f /run/rsiw/exclusive
run "the first device moves data in shared mode" rping_self "$DEV" "$ADDR" 7907
