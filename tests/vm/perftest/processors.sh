#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# Both ends of a connection work at once, each on a processor of its own, TIME seconds a test: one
# end posts while packets of the other end change the same queues, in softirqs and work items. This
# job is for kernels that look for races: here KCSAN has found a counter that was not atomic.

. /tests/lib.sh
. /tests/perftest/lib
: "${TIME:=2}"
plan 6

# Used by perftest.
# shellcheck disable=SC2034
TO=$LO APART=1 TRY=$((2 * TIME + 20))
# at_once PROGRAM OPTION...
at_once() { LIMIT=$((6 * TIME + 60)) run "both ends work at once in $*" perftest 1 "$@" -D "$TIME"; }

run "load the driver on lo" load_on_lo || exit 1
at_once ib_send_bw -b -s 4096
at_once ib_write_bw -b -s 16384
at_once ib_write_bw -b -s 64 -q 2
at_once ib_read_bw -b -s 16384
run "unload the driver" unload_driver
