#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 60
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: *,siw siw,*
#
# Each kind of transfer of perftest once, with siw at one end.

. /tests/lib.sh
. /tests/perftest/lib
plan 7

run "load the driver on both hosts" both load_driver || exit 1
for test in ib_send_bw ib_write_bw ib_read_bw; do
	run "$test moves messages of 64 KiB" perftest 1 "$test" -s 65536 -n 60
done
for test in ib_send_lat ib_write_lat ib_read_lat; do
	run "$test moves messages of 2 bytes" perftest 1 "$test" -s 2 -n 100
done
