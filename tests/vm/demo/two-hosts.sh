#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
#
# `make run`: what the driver does, on two hosts joined by an Ethernet.

. /tests/lib.sh
plan 4

show() { echo; echo "\$ $*"; "$@"; }

note "two hosts, $A4 and $B4, each gets a $RSIW_DRIVER device on its eth0"
run "load the driver on both hosts" both load_driver || exit 1
show rdma link show

peer_bg rping rping -s -C 5 -v
server_up 7174
run "rping: RDMA reads and writes of checked data" rping -c -a "$PEER" -C 5 -v

for test in ib_send_bw ib_write_bw; do
	peer_bg "$test" "$test" -R -s 65536 -n 500 -d "$PEER_DEV"
	server_up 18515
	run "$test, messages of 64 KiB" "$test" -R -s 65536 -n 500 -d "$DEV" "$PEER"
	peer_kill "$test"
done
show rdma statistic show link "$DEV/1"
note "this is emulation: figures compare with each other, not with hardware"
