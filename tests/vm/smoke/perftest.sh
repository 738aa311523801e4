#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# interop: yes
#
# perftest over the connection manager: each kind of transfer, briefly.

. /tests/lib.sh
plan 4

run "load the driver on both hosts" both load_driver || exit 1

for test in ib_send_bw ib_write_bw ib_read_bw; do
	peer_bg "$test" "$test" -R -s 65536 -n 200 -d "$PEER_DEV"
	server_up 18515
	run "$test" "$test" -R -s 65536 -n 200 -d "$DEV" "$PEER"
	peer_kill "$test"
done
