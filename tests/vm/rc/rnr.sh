#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# pairs: rsiw,*
# time: virtual
#
# Sends that find no receive, of queue pairs that a program connects by itself: how often they are tried again
# (rnr_retry), and for how long they wait (min_rnr_timer). With siw's library, and with rsiw's own, which knows the
# status. The way to the peer takes so long that a Send is still on it when TCP has taken it.

. /tests/lib.sh
. /tests/rc/lib

run "load the driver and make both kinds of links" rc_up || exit 1
modprobe sch_netem
run "the way takes 20 ms" tc qdisc add dev lo root netem delay 20ms limit 100000
index=$(gid_index "$ADDR")
with_own() {
	rcrnr rc0 "$index" | sed -E 's/^(not )?ok /&with the provider of rsiw: /'
	return "${PIPESTATUS[0]}"
}
[ "${RSIW_PROVIDER:-}" = rsiw ] || told_by "Sends without a receive" rcrnr rc0 "$index"
if has_provider; then
	run "the host loads rsiw's provider" use_provider
	told_by "Sends without a receive, with the provider of rsiw" with_own
else
	skip "Sends without a receive, with the provider of rsiw" "$NO_PROVIDER"
fi

# The log and the counter say why a connection has ended.
timeouts=$(counter rx_stall_timeouts)
run "a counter has those that waited in vain" [ "$timeouts" -ge 8 ]
run "the log says why" eval "dmesg | grep -q 'no receive buffer for Send; stream terminated'"

sparing() {
	echo 0 >/sys/class/infiniband/rc0/settings/rc_confirm
	rcrnr rc0 "$index" | grep -m1 "fails, and not before its time" | grep "^not ok"
}
run "with rc_confirm=0 a Send completes when TCP has taken it" sparing
