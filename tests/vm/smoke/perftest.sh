#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
#
# perftest over the connection manager: each kind of transfer, briefly. Not on
# a debug kernel: perftest refuses to report with a clock as rough as there.

. /tests/lib.sh
plan 4

run "load the driver on both hosts" both load_driver || exit 1

bandwidth() {
	local status
	peer_bg server "$1" -R -s 65536 -n 200 -d "$PEER_DEV"
	server_up 18515 || return
	within "$(limit 20)" "$1" -R -s 65536 -n 200 -d "$DEV" "$PEER"
	status=$?
	peer_kill server
	return "$status"
}

for test in ib_send_bw ib_write_bw ib_read_bw; do
	LIMIT=90 run "$test" patiently bandwidth "$test"
done
