#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
#
# perftest's latency tests, and qperf.

. /tests/lib.sh
. /tests/perftest/lib
plan 15

# Without CRC: what matters to latency. With CRC they run in perftest/loopback and smoke.
run "load the driver on both hosts, without CRC" both load_driver crc=0 || exit 1

for test in ib_send_lat ib_write_lat ib_read_lat; do
	run "$test" perftest 1 "$test" -s 2 -n 200
	TRY=60 LIMIT=70 run "$test, all sizes" perftest 23 "$test" -a -n 5
done
for test in ib_send_lat ib_read_lat; do
	run "$test, completions by event" perftest 1 "$test" -s 2 -n 100 -e
done
run "ib_send_lat, shared receive queue" perftest 1 ib_send_lat -s 2 -n 100 --use-srq

peer_bg qperf qperf
server_up 19765
# Its rc_rdma_write_bw posts Writes with immediate data; the other one posts plain ones.
skip "qperf rc_rdma_write_bw" "siw's library has no RDMA Write with Immediate"
for test in rc_bw rc_lat rc_rdma_write_poll_lat rc_rdma_read_bw; do
	# The server listens anew for each test, and rejects a client that is faster.
	measure() {
		local left=3
		until patiently within 15 qperf -cm1 -t 1 "$PEER" "$test"; do
			left=$((left - 1))
			[ "$left" -gt 0 ] || return
			sleep 1
		done
	}
	run "qperf $test" measure
done
