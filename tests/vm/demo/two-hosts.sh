#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# `make run` shows the driver at work on two hosts, which an Ethernet joins.

. /tests/lib.sh
. /tests/perftest/lib
plan 4

demonstrate() { echo; echo "\$ $*"; "$@"; }

note "two hosts, $A4 and $B4, each gets a $RSIW_DRIVER device on its eth0"
run "load the driver on both hosts" both load_driver || exit 1
demonstrate rdma link show

peer_bg rping rping -s -C 5 -v
server_up 7174
run "rping moves checked data by RDMA Reads and Writes" rping -c -a "$PEER" -C 5 -v

# With all that the program prints.
bandwidth() {
	perftest 1 "$@" >"$WORK/said" || { cat "$WORK/said"; return 1; }
	cat "$WORK/client"
}
for test in ib_send_bw ib_write_bw; do
	LIMIT=60 run "$test moves messages of 64 KiB" bandwidth "$test" -s 65536 -n 500
done
demonstrate rdma statistic show link "$DEV/1"
note "this is emulation: figures compare with each other, not with hardware"
