#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 280
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# perftest's bandwidth tests, with the options they have (ALL: each in all sizes).

. /tests/lib.sh
. /tests/perftest/lib
plan $((${ALL:+2} + 16))

# siw maps no more than some forty queues to a process.
many=64
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || many=4

run "load the driver on both hosts" both load_driver || exit 1

for test in ib_send_bw ib_write_bw ib_read_bw; do
	run "$test" perftest 1 "$test" -s 65536 -n 100
	if [ "$test" = ib_write_bw ] || [ -n "${ALL:-}" ]; then
		TRY=60 LIMIT=70 run "$test, all sizes" perftest 23 "$test" -a -n 5
	fi
	run "$test, both directions" perftest 1 "$test" -s 65536 -n 60 -b
	# Events: over iWARP the sender of ib_send_bw also waits for a credit, of which no event
	# tells; with this many messages it never runs out of it.
	case $test in
	ib_write_bw) skip "$test, completions by event" "not a feature of the program" ;;
	ib_send_bw) run "$test, completions by event" perftest 1 "$test" -s 65536 -n 600 -e ;;
	*) run "$test, completions by event" perftest 1 "$test" -s 65536 -n 60 -e ;;
	esac
	[ "$test" = ib_send_bw ] || run "$test, $many connections" perftest 1 "$test" -s 4096 -n 20 -q "$many"
done
run "ib_send_bw, shared receive queue" perftest 1 ib_send_bw -s 4096 -n 100 --use-srq
for test in ib_send_bw ib_write_bw; do
	run "$test, lists of 16" perftest 1 "$test" -s 4096 -n 160 -l 16
done
