#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# perftest over the connection manager: each kind of transfer, briefly. Not on the
# debug kernel: its clock is too rough for perftest to report anything.

. /tests/lib.sh
. /tests/perftest/lib
plan 4

run "load the driver on both hosts" both load_driver || exit 1

for test in ib_send_bw ib_write_bw ib_read_bw; do
	LIMIT=90 run "$test moves messages of 64 KiB" perftest 1 "$test" -s 65536 -n 200
done
