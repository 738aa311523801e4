#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
# pairs: rsiw,*
# turn: 1/2
#
# The driver's workers, which send (rsiw_tx) and receive (rsiw_rx) in bulk, have a high priority. For
# an eighth of the time they run at the priority of processes, in turn with them. The kernel's trace
# tells which work queue has the work.

. /tests/lib.sh
. /tests/perftest/lib
plan 4

# shellcheck disable=SC2034
TO=$LO
trace=/sys/kernel/tracing
queued=$trace/events/workqueue/workqueue_queue_work
run "load the driver on lo" load_on_lo || exit 1
mountpoint -q $trace || mount -t tracefs none $trace
echo 'workqueue ~ "rsiw_?x*"' >$queued/filter && echo 1 >$queued/enable
echo 8192 >$trace/buffer_size_kb
run "ib_read_bw moves messages of 1 MiB" perftest 1 ib_read_bw -s 1048576 -n 400
echo 0 >$queued/enable

# in_turn QUEUE: between a 32nd and a half of its work was queued to run in turn with processes.
in_turn() {
	local high turn
	high=$(grep -c "workqueue=$1 " $trace/trace)
	turn=$(grep -c "workqueue=${1}_in_turn " $trace/trace)
	echo "$high times at a high priority, $turn in turn"
	[ "$turn" -ge $(((high + turn) / 32)) ] && [ "$turn" -gt 0 ] && [ "$turn" -le "$high" ]
}
run "sending takes turns with processes" in_turn rsiw_tx
run "receiving takes turns with processes" in_turn rsiw_rx
