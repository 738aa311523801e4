#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# time: virtual
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# perftest's latency tests, and qperf. ALL=1: each test in all sizes. (perftest measures the
# clock twice for each size, which takes longer than the messages.)

. /tests/lib.sh
. /tests/perftest/lib
plan $((${ALL:+3} + 12))

# Without CRC, where latency is lowest. perftest/loopback runs these tests with CRC.
run "load the driver on both hosts, without CRC" both load_driver crc=0 || exit 1

for test in ib_send_lat ib_write_lat ib_read_lat; do
	run "$test moves messages of 2 bytes" perftest 1 "$test" -s 2 -n 200
	[ -n "${ALL:-}" ] || continue
	TRY=60 LIMIT=70 run "$test moves messages of all sizes" perftest 23 "$test" -a -n 5
done
for test in ib_send_lat ib_read_lat; do
	run "$test takes completions by event" perftest 1 "$test" -s 2 -n 100 -e
done
run "ib_send_lat uses a shared receive queue" perftest 1 ib_send_lat -s 2 -n 100 --use-srq

qperfs
