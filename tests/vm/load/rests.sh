#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
# pairs: rsiw,rsiw
# turn: 1/2
#
# The driver's workers, which send and receive in bulk, have a high priority: a process that polls does not
# take half of a processor from them. Nor have they a processor to themselves: they rest, if another task wants
# it. The peer receives, which its worker does, and its server sleeps. The kernel's trace tells when the worker rests.

. /tests/lib.sh
plan 6

trace=/sys/kernel/tracing

# What rests calls this function, and so do others; but those are not workers of high priority.
tracing() {
	mountpoint -q $trace || mount -t tracefs none $trace
	echo usleep_range_state >$trace/set_ftrace_filter && echo function >$trace/current_tracer
}
writes() {
	peer_bg "$1" fair server "$PEER" "$2" 16 && server_up "$2" &&
		fair client "$PEER" "$2" 16 65536 8 "$(limit 8)" && peer_end "$1" 10
}
rests() { peer sh -c "grep -c 'kworker/[0-9:]*H-.*usleep_range_state' $trace/trace; echo >$trace/trace" || true; }

run "load the driver on both hosts" both load_driver || exit 1
run "trace the peer" peer_sh "$(declare -f tracing); trace=$trace; tracing" || exit 1
rests >"$WORK/nothing"
run "Writes, with no process beside the worker" writes alone 7701
alone=$(rests)
peer_bg share share 600
run "Writes, beside a process that computes" writes beside 7702
beside=$(rests)
peer_kill share
run "the worker rests" test "$beside" -ge 10
few() {
	echo "$alone and $beside times"
	[ "$alone" -le $((beside / 2)) ]
}
run "it rests for a process only" few
