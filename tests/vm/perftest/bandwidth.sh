#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 280
# time: virtual
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# perftest's bandwidth tests with their options. ALL: each test in all sizes.

. /tests/lib.sh
. /tests/perftest/lib
plan $((${ALL:+2} + 16))

# siw maps no more than some forty queues to a process.
many=64
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || many=4

run "load the driver on both hosts" both load_driver || exit 1

for test in ib_send_bw ib_write_bw ib_read_bw; do
	run "$test moves messages of 64 KiB" perftest 1 "$test" -s 65536 -n 100
	if [ "$test" = ib_write_bw ] || [ -n "${ALL:-}" ]; then
		TRY=60 LIMIT=70 run "$test moves messages of all sizes" perftest 23 "$test" -a -n 5
	fi
	run "$test moves messages in both directions" perftest 1 "$test" -s 65536 -n 60 -b
	# With events, the sender of ib_send_bw over iWARP may wait for a credit without an event for it.
	# With this many messages it has credits enough.
	case $test in
	ib_write_bw) skip "$test takes completions by event" "not a feature of the program" ;;
	ib_send_bw) run "$test takes completions by event" perftest 1 "$test" -s 65536 -n 600 -e ;;
	*) run "$test takes completions by event" perftest 1 "$test" -s 65536 -n 60 -e ;;
	esac
	[ "$test" = ib_send_bw ] || run "$test uses $many connections" perftest 1 "$test" -s 4096 -n 20 -q "$many"
done
run "ib_send_bw uses a shared receive queue" perftest 1 ib_send_bw -s 4096 -n 100 --use-srq
for test in ib_send_bw ib_write_bw; do
	run "$test posts lists of 16 requests" perftest 1 "$test" -s 4096 -n 160 -l 16
done
