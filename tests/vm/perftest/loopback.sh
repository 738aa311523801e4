#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
#
# perftest in one host that talks to itself over lo.

. /tests/lib.sh
. /tests/perftest/lib
plan 17

# Used by perftest.
# shellcheck disable=SC2034
TO=$LO
run "load the driver on lo" load_on_lo || exit 1
for test in ib_send_bw ib_write_bw ib_read_bw; do
	run "$test" perftest 1 "$test" -s 65536 -n 100
done
for test in ib_send_lat ib_write_lat ib_read_lat; do
	run "$test" perftest 1 "$test" -s 2 -n 100
done
run "ib_write_bw, 64 connections" perftest 1 ib_write_bw -s 4096 -n 20 -q 64
run "ib_read_bw, both directions" perftest 1 ib_read_bw -s 65536 -n 60 -b
run "ib_send_lat, completions by event" perftest 1 ib_send_lat -s 2 -n 100 -e
run "ib_send_bw, shared receive queue" perftest 1 ib_send_bw -s 4096 -n 100 --use-srq
run "ib_write_bw, lists of 16" perftest 1 ib_write_bw -s 4096 -n 160 -l 16
qperfs
