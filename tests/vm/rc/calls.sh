#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# pairs: rsiw,*
#
# A TCP peer that calls queue pairs by name by hand: who is admitted, and what becomes of all others (calls.py).

. /tests/lib.sh
. /tests/rc/lib

run "load the driver and make both kinds of links" rc_up || exit 1
# The callers' addresses, of this host as well, are below that of the queue pairs, so that they have to call.
ip addr add 10.7.88.1/24 dev eth0
ip addr add 10.7.88.9/24 dev eth0
ip addr add 10.7.99.1/24 dev eth0
wait_for 30 gid_index 10.7.99.1
# Two interfaces with the same addresses.
ip link add link eth0 name vlan7 type vlan id 7
ip link set vlan7 up
for netdev in eth0 vlan7; do
	ip addr add fe80::1/64 dev "$netdev" nodad
	ip addr add fe80::99/64 dev "$netdev" nodad
	wait_for 30 gid_index fe80::99 rc0 "$netdev"
done
before=$(counter rc_calls_refused)
told_by "calls over TCP" python3 -B /tests/rc/calls.py rc0 "$(gid_index 10.7.99.1)" 10.7.99.1 \
	"$(gid_index fe80::99 rc0 eth0)" "$(gid_index fe80::99 rc0 vlan7)"
counted() { echo "refused: $(($(counter rc_calls_refused) - before))" && [ $(($(counter rc_calls_refused) - before)) -ge 10 ]; }
run "refused calls are counted" counted
run "no connection is left" wait_for 20 no_connections

# Ports that take privileges, for calls and for those that wait for them: the queue pairs' programs have none.
settings=/sys/class/infiniband/rc0/settings
low() { echo 1 >"$settings/rc_low_ports" && echo 791 >"$settings/rc_port"; }
run "calls have to come from low ports" low
told_by "calls from low ports" env RC_PORT=791 python3 -B /tests/rc/calls.py rc0 "$(gid_index 10.7.99.1)" 10.7.99.1 0 0 low
low_ports() { ss -Htn state established '( dport = :791 )' | awk '{ sub(".*:", "", $3); bad += $3 + 0 < 665 || $3 + 0 > 1023; n++ } END { exit bad || !n }'; }
unprivileged() {
	local program
	chmod a+rw /dev/infiniband/uverbs*
	ordinary rcstates rc0 "$(gid_index 10.7.99.1)" >"$WORK/states" &
	program=$!
	wait_for 20 low_ports || return
	wait "$program"
	grep '^ok two queue pairs are connected$' "$WORK/states"
}
LIMIT=90 run "queue pairs of programs without privileges call from low ports" unprivileged
high() { echo 0 >"$settings/rc_low_ports" && echo 4791 >"$settings/rc_port"; }
run "calls may come from any port again" high
