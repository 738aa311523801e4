#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# 127.0.0.1 and ::1, for which the RDMA CM takes the first device that it has: with a link on lo alone, with one on eth0
# beside it, and with one on eth0 alone, where nobody can be reached. And they are those of the process' own network
# namespace.

. /tests/lib.sh
. /tests/device/lib
plan 20

# pings ADDRESS SERVER PORT: rping connects to ADDRESS, with a server at SERVER.
pings() {
	started server rping -s -a "$2" -p "$3" -C 10 -V -S 1000
	listens "$3" || { cat "$WORK/server"; return 1; }
	within 15 rping -c -a "$1" -p "$3" -C 10 -V -S 1000 && ends server 10 && [ "$(<"$WORK/server.status")" = 0 ]
}
# ways PORT LINKS: four ways to reach a server.
ways() {
	run "127.0.0.1 connects with $2" pings 127.0.0.1 127.0.0.1 "$1"
	run "127.0.0.1 connects with $2 to a server at the wildcard" pings 127.0.0.1 0.0.0.0 "$(($1 + 1))"
	run "::1 connects with $2" pings ::1 ::1 "$(($1 + 2))"
	run "::1 connects with $2 to a server at the wildcard" pings ::1 :: "$(($1 + 3))"
}
# The attempt ends, and the server can be told to end.
nobody() {
	local status
	started server rping -s -a 127.0.0.1 -p 7671 -C 1
	wait_for 10 listens_in_cm 7671 || return
	within 20 rping -c -a 127.0.0.1 -p 7671 -C 1
	status=$?
	kill "$(<"$WORK/server.pid")"
	ends server 10 && [ "$status" != 0 ] && [ "$status" != 124 ]
}
listens_in_cm() { rdma resource show cm_id | grep "LISTEN.*:$1\b"; }
one_key() { [ "$(cat "/sys/class/infiniband/$DEV/ports/1/pkeys/"*)" = 0xffff ]; }

# The RDMA CM gives a process of another namespace the same device, but not the address there.
foreign_client() {
	local status
	started server rping -s -a 127.0.0.1 -p 7681 -C 1
	listens 7681 || return
	says "Cannot assign requested address" in_ns timeout 10 rping -c -a 127.0.0.1 -p 7681 -C 1
	status=$?
	kill "$(<"$WORK/server.pid")"
	ends server 10 && return "$status"
}
foreign_server() {
	started server ip netns exec ns1 rping -s -a 127.0.0.1 -p 7682 -C 1
	wait_for 10 listens_in_cm 7682 || return
	ss -Hltn 'sport = :7682' >"$WORK/ports"
	kill "$(<"$WORK/server.pid")"
	ends server 10
	cat "$WORK/ports"
	[ ! -s "$WORK/ports" ]
}

run "load the driver" load_module "$RSIW_DRIVER" || exit 1
run "make a link on lo" add_device r_lo lo
ways 7651 "a link on lo"
rdma link del r_lo
run "make a link on eth0" add_device "$DEV" eth0
run "the port has the P_Key that the RDMA CM asks for" one_key
run "127.0.0.1 does not connect with a link on eth0 alone" nobody
run "make a link on lo beside that on eth0" add_device r_lo lo
ways 7655 "links on eth0 and lo"
run "make a network namespace" ip netns add ns1
ip netns exec ns1 ip link set lo up
run "a process of another namespace does not reach 127.0.0.1 of this one" foreign_client
run "a process of another namespace does not listen at 127.0.0.1 of this one" foreign_server
run "delete the namespace" ip netns del ns1
run "no object is left" wait_for 10 nothing_left
run "unload the driver" rmmod "$RSIW_DRIVER"
