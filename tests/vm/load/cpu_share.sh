#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
# pairs: rsiw,rsiw
#
# The driver's workers, which send and receive in bulk, have a high priority: a process that polls does not
# take half of a processor from them. Nor have they a processor to themselves: they rest, if another task wants
# it. The peer receives, which its worker does, and its server sleeps. The kernel's trace tells when the worker rests.

. /tests/lib.sh
plan 6

trace=/sys/kernel/tracing

# What rests calls this function, and so do others; but those are not workers of high priority. The event tells which
# task has the processor then.
tracing() {
	local switches=$trace/events/sched/sched_switch
	mountpoint -q $trace || mount -t tracefs none $trace
	echo 4096 >$trace/buffer_size_kb && echo usleep_range_state >$trace/set_ftrace_filter &&
		echo 'prev_comm ~ "kworker/*H*" && prev_state == 2' >$switches/filter && echo 1 >$switches/enable &&
		echo function >$trace/current_tracer
}
writes() {
	peer_bg "$1" fair server "$PEER" "$2" 16 && server_up "$2" &&
		fair client "$PEER" "$2" 16 65536 8 "$(limit 8)" && peer_end "$1" 10
}
# rests: how often the worker has gone to sleep to rest since this was called before, and how often no task wanted the
# processor then.
rests() {
	local count='
		$1 !~ /^kworker\/[0-9:]*H-/ { next }
		/usleep_range_state/ { sleeps++; rests[$1] = 1; next }
		/sched_switch/ && rests[$1] { rests[$1] = 0; if (/next_comm=swapper/) idle++ }
		END { print sleeps + 0, idle + 0 }'
	peer sh -c "awk '$count' $trace/trace; echo >$trace/trace"
}

run "load the driver on both hosts" both load_driver || exit 1
run "trace the peer" peer_sh "$(declare -f tracing); trace=$trace; tracing" || exit 1
rests >"$WORK/nothing"
run "Writes, with no process beside the worker" writes alone 7701
read -r alone idle < <(rests)
peer_bg share share 600
run "Writes, beside a process that computes" writes beside 7702
read -r beside idle_beside < <(rests)
peer_kill share
run "the worker rests" test "$beside" -ge 10
# Now and then a task comes and goes.
for_others() {
	echo "$alone times, of which $idle for nobody; beside the process $beside and $idle_beside"
	[ $(((idle + idle_beside) * 5)) -le $((alone + beside)) ]
}
run "it rests for other tasks only" for_others
