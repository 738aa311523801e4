#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# `make run` shows the driver at work on two hosts, which an Ethernet joins.

. /tests/lib.sh
. /tests/perftest/lib
. /tests/rc/lib
plan 6

demonstrate() { echo; echo "\$ $*"; "$@"; }

note "two hosts, $A4 and $B4, each gets a $RSIW_DRIVER device on its eth0"
run "load the driver on both hosts" both load_driver || exit 1
demonstrate rdma link show

peer_bg rping rping -s -C 5 -v
server_up 7174
run "rping moves checked data by RDMA Reads and Writes" rping -c -a "$PEER" -C 5 -v

# Programs that were written for InfiniBand do without the RDMA connection manager.
run "make links for programs that connect by themselves" both eval '. /tests/rc/lib; rc_add rc0 eth0'
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
run "ibv_rc_pingpong moves data" pingpong ibv_rc_pingpong "$PEER" "$gids" -n 200

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
