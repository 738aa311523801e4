#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# pairs: rsiw,*
#
# A queue pair that its program connects lives many lives, and is reset, held (SQD) or destroyed at random, while
# its peer breaks off at any point, again and again. On the debug kernel the driver's thread is late at each lock and
# each wait, by up to LATE us (tests/faults/calls.list), so that whatever may come between two steps does so.
# LIVES: how many. RSIW_SEED: the seed.

. /tests/lib.sh
. /tests/rc/lib
plan 8
: "${LIVES:=$([ "$RSIW_KERNEL" = debug ] && echo 150 || echo 600)}" "${LATE:=3000}" "${RSIW_SEED:=1}"

run "load the driver and make both kinds of links" rc_up || exit 1
ip addr add 10.7.88.1/24 dev eth0
ip addr add 10.7.99.1/24 dev eth0
ip addr add 10.7.99.9/24 dev eth0
wait_for 5 gid_index 10.7.99.1
late=/sys/module/rsiw/parameters/late_us
late() {
	[ -e "$late" ] || { echo "this module is never late"; return 0; }
	echo "$1" >"$late"
}
lives() { python3 -B /tests/rc/lives.py rc0 "$(gid_index 10.7.99.1)" 10.7.99.1 "$1" "$LIVES" "$RSIW_SEED"; }
run "the driver's threads are late" late "$LATE"
LIMIT=100 run "a queue pair that is called lives many lives" lives called
LIMIT=100 run "a queue pair that calls lives many lives" lives calls
run "the driver's threads are in time" late 0
run "no connection is left" wait_for 20 no_connections
closed() { ! ss -Hltn "sport = :4791" | grep .; }
run "no port is open when no queue pair waits" wait_for 5 closed
run "two queue pairs work afterwards" eval 'rcstates rc0 "$(gid_index 10.7.99.1)" | grep "^ok two queue pairs are connected$"'
