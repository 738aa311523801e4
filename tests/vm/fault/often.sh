#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: debug
# pairs: rsiw,*
# allow: Call Trace:|allocation failed|page allocation failure
#
# Allocations fail at random wherever the driver is at work: its callbacks and work
# items, too. Connections come to nothing then, or break; nothing hangs, what has
# arrived is right, and all is well afterwards (kmemleak looks at the end of the
# session). TIME: seconds of each of RATES, in 1000.

. /tests/lib.sh
. /tests/device/lib
. /tests/fault/lib

: "${TIME:=5}"
read -ra rates <<<"${RATES:-20}"
plan $((3 * ${#rates[@]} + 6))

# One that neither hangs nor calls right what is wrong: rping compares what it gets. It may
# wait for a server that does not answer: 30 s.
ends_well() {
	local status=0
	timeout -s KILL 60 "$@" >"$WORK/said" 2>&1 || status=$?
	if [ "$status" = 137 ] || grep -q 'data mismatch' "$WORK/said"; then
		cat "$WORK/said" "$WORK/server"
		rdma res show qp
		rdma res show cm_id
		return 1
	fi
	[ "$status" != 0 ] || good=$((good + 1))
}
pings() {
	local end=$((SECONDS + TIME)) tries=0 good=0 server
	while [ "$SECONDS" -lt "$end" ]; do
		tries=$((tries + 1))
		rping -s -a "$ADDR" -p 7340 -C 20 -S 5000 -V >"$WORK/server" 2>&1 &
		server=$!
		# Its listening may have failed, too.
		listens 7340 1 >/dev/null 2>&1 && { ends_well rping -c -a "$ADDR" -p 7340 -C 20 -S 5000 -V || return; }
		kill -KILL "$server" 2>/dev/null
		wait "$server" 2>/dev/null
	done
	echo "$good of $tries were good"
}
# What is said to fail did, and not a few: a page less often, as the driver takes few.
each_kind_failed() {
	echo "slab: $(failed failslab), pages: $(failed fail_page_alloc)"
	[ "$(failed failslab)" -ge "$TIME" ] && [ "$(failed fail_page_alloc)" -ge 1 ]
}
# A connection that others made before is there all the while, or breaks.
survives_or_ends() {
	if [ -e "$WORK/honest.status" ]; then
		cat "$WORK/honest"
		! grep -q 'is not what was' "$WORK/honest"
	else
		tail -n 1 "$WORK/honest"
	fi
}

run "load the driver" load_driver || exit 1
# The core allocates each completion event that a process waits for and drops it if it cannot;
# nobody looks again then, and programs wait for ever.
but_for_events() {
	local start
	start=$(awk '$3 == "ib_uverbs_comp_handler" { print "0x" $1 }' /proc/kallsyms)
	[ -n "$start" ] && faults "reject-start=$start" "reject-end=$(printf '0x%x' $((start + 512)))"
}
run "faults are ours" eval 'only_ours && but_for_events'
for rate in "${rates[@]}"; do
	started honest honest "$ADDR" 7341 && told honest '^10$' 20
	# So many per cent of each tenth.
	faults interval=10 "times=$MANY" task-filter=N "probability=$rate"
	LIMIT=$((TIME + 90)) run "$rate of 1000 allocations fail" pings
	faults probability=0
	run "of both kinds" each_kind_failed
	run "a connection of before" survives_or_ends
	kill -KILL "$(<"$WORK/honest.pid")" 2>/dev/null
	wait_for 5 test -e "$WORK/honest.status"
done
run "a connection" ping "$DEV" "$ADDR" 7342
run "new devices" eval 'ip link add fault0 type dummy && ip link set fault0 up && add_device other fault0'
run "no socket is left" wait_for 20 no_sockets 7340 7341
run "unload the driver" unload_driver
