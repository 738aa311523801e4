#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# perftest on one host, which connects to itself over lo.

. /tests/lib.sh
. /tests/perftest/lib
plan 12

# Used by perftest.
# shellcheck disable=SC2034
TO=$LO
run "load the driver on lo" load_on_lo || exit 1
for test in ib_send_bw ib_write_bw ib_read_bw; do
	run "$test moves messages of 64 KiB" perftest 1 "$test" -s 65536 -n 100
done
for test in ib_send_lat ib_write_lat ib_read_lat; do
	run "$test moves messages of 2 bytes" perftest 1 "$test" -s 2 -n 100
done
qperfs
