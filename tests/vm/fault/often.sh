#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: debug
# pairs: rsiw,*
# allow: Call Trace:|allocation failed|page allocation failure
#
# Allocations fail at random wherever the driver is at work, in its callbacks and work
# items, too. Connections then fail or break; nothing hangs, arriving data are right, and
# everything works afterwards. (kmemleak looks at the end of the session.) RATES: how many
# of 1000 allocations fail. TIME: seconds of each rate.

. /tests/lib.sh
. /tests/device/lib
. /tests/fault/lib

: "${TIME:=5}"
read -ra rates <<<"${RATES:-20}"
plan $((3 * ${#rates[@]} + 6))

# ends_well COMMAND...: rping, which compares data, does not hang and gets no wrong data. It may wait for
# 30 s for a server that does not answer.
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
# A slow machine takes longer until each kind has failed.
rping_until() {
	local end=$((SECONDS + TIME)) tries=0 good=0 more server
	more=$(limit 30)
	while [ "$SECONDS" -lt "$end" ] || { [ "$SECONDS" -lt $((end + more)) ] && ! each_kind_failed >/dev/null; }; do
		tries=$((tries + 1))
		rping -s -a "$ADDR" -p 7340 -C 20 -S 5000 -V >"$WORK/server" 2>&1 &
		server=$!
		# If its listening has failed, there is nothing to connect to.
		listens 7340 1 >/dev/null 2>&1 && { ends_well rping -c -a "$ADDR" -p 7340 -C 20 -S 5000 -V || return; }
		kill -KILL "$server" 2>/dev/null
		wait "$server" 2>/dev/null
	done
	echo "$good of $tries were good"
}
# Slab allocations have failed, not just a few; and a page, of which the driver allocates few.
each_kind_failed() {
	echo "slab: $(failed failslab), pages: $(failed fail_page_alloc)"
	[ "$(failed failslab)" -ge "$TIME" ] && [ "$(failed fail_page_alloc)" -ge 1 ]
}
# A connection that was made before goes on, or breaks without wrong data.
survives_or_ends() {
	if [ -e "$WORK/honest.status" ]; then
		cat "$WORK/honest"
		! grep -q 'is not what was' "$WORK/honest"
	else
		tail -n 1 "$WORK/honest"
	fi
}

run "load the driver" load_driver || exit 1
# The RDMA core allocates each completion event that a process waits for. If that fails, it drops the event, and
# programs wait for ever. So these allocations do not fail.
but_for_events() {
	local start
	start=$(awk '$3 == "ib_uverbs_comp_handler" { print "0x" $1 }' /proc/kallsyms)
	[ -n "$start" ] && faults "reject-start=$start" "reject-end=$(printf '0x%x' $((start + 512)))"
}
run "restrict faults to the driver" eval 'only_ours && but_for_events'
for rate in "${rates[@]}"; do
	started honest honest "$ADDR" 7341 && told honest '^10$' 20
	# Every tenth allocation fails with a probability of so many per cent.
	faults interval=10 "times=$MANY" task-filter=N "probability=$rate"
	LIMIT=$((TIME + 90)) run "rping ends well when $rate of 1000 allocations fail" rping_until
	faults probability=0
	run "slabs and pages have failed at $rate of 1000" each_kind_failed
	run "an earlier connection survives or ends at $rate of 1000" survives_or_ends
	kill -KILL "$(<"$WORK/honest.pid")" 2>/dev/null
	wait_for 5 test -e "$WORK/honest.status"
done
run "the device moves data after the faults" rping_self "$DEV" "$ADDR" 7342
run "a device can be made after the faults" eval 'ip link add fault0 type dummy && ip link set fault0 up && add_device other fault0'
run "no socket is left after the faults" wait_for 20 no_sockets 7340 7341
run "unload the driver" unload_driver
