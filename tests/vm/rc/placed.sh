#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 200
# pairs: rsiw,*
# time: virtual
#
# When RDMA Writes complete of queue pairs that a program connects by itself. The way to the peer takes so long that
# most of a long Write is still on it when TCP has taken all.

. /tests/lib.sh
. /tests/rc/lib

run "load the driver and make both kinds of links" rc_up || exit 1
modprobe sch_netem
run "the way takes 20 ms" tc qdisc add dev lo root netem delay 20ms limit 100000
told_by "completions of Writes" rcplaced rc0 "$(gid_index "$ADDR")"
sparing() {
	echo 0 >/sys/class/infiniband/rc0/settings/rc_confirm
	rcplaced rc0 "$(gid_index "$ADDR")" >"$WORK/said"
	grep -q "^not ok a Write with a wrong key: remote access error" "$WORK/said" || { cat "$WORK/said"; return 1; }
}
run "with rc_confirm=0 Writes complete when TCP has taken them" sparing
