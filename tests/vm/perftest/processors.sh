#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# Both ends of a connection at work at once, each on a processor of its own: what one posts meets
# what the other's packets do to the same queues, in softirq and in work items, for TIME seconds a
# test. Made for kernels that look for races: KCSAN has found a counter here that was not atomic.

. /tests/lib.sh
. /tests/perftest/lib
: "${TIME:=2}"
plan 6

# Used by perftest.
# shellcheck disable=SC2034
TO=$LO APART=1 TRY=$((2 * TIME + 20))
both() { LIMIT=$((6 * TIME + 60)) run "$*" perftest 1 "$@" -D "$TIME"; }

run "load the driver on lo" load_on_lo || exit 1
both ib_send_bw -b -s 4096
both ib_write_bw -b -s 16384
both ib_write_bw -b -s 64 -q 2
both ib_read_bw -b -s 16384
run "unload the driver" unload_driver
