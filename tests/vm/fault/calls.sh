#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: debug
# pairs: rsiw,*
#
# Each call of a kernel function that can fail (tests/faults/calls.list; built into the debug kernel's
# module) fails once, in turn: while the module loads and makes a device, in what processes ask for, and
# in connections, where work items and callbacks make the calls. The request then fails or not. Nothing
# hangs, arriving data are right, nothing stays behind, and the next request succeeds. (kmemleak looks at
# the end of the session.) MOST: failures of a function in one scenario.

. /tests/lib.sh
. /tests/device/lib
: "${MOST:=1}"
plan 9

PARAMETERS=/sys/module/rsiw/parameters
mapfile -t calls < <(modinfo -F fails /build/rsiw.ko | sort)
[ "${#calls[@]}" -gt 20 ] || { echo "a module without tests/faults"; exit 1; }

arm() { echo "$1" >"$PARAMETERS/fail_call" && echo "$2" >"$PARAMETERS/fail_nth"; }
# Whether the call has failed. From now on it does not.
fired() {
	local left
	left=$(<"$PARAMETERS/fail_nth")
	echo 0 >"$PARAMETERS/fail_nth"
	[ "$left" -le 0 ]
}

# each SCENARIO CHECK: runs the scenario with each failure, and the check after all failures of a function.
each() {
	local call n failures=0 named=()
	for call in "${calls[@]}"; do
		for ((n = 1; n <= MOST; n++)); do
			arm "$call" "$n" || return
			"$1" || { echo "$call, $n: $1 does not end"; return 1; }
			fired || break
			failures=$((failures + 1))
		done
		[ "$n" = 1 ] || { named+=("$call $((n - 1))") && echo "$call" >>"$WORK/failed" && "$2"; } || { echo "$call: $2"; return 1; }
	done
	echo "$failures failures: ${named[*]}"
	[ "$failures" -gt 0 ]
}

# The module is loaded and unloaded. Its parameters cannot be written before, so insmod sets them.
loads() {
	local call
	for call in alloc_workqueue_noprof register_netdevice_notifier; do
		for n in 1 2 3 4 5; do
			if insmod /build/rsiw.ko fail_call="$call" fail_nth="$n" 2>/dev/null; then
				fired && { echo "$call, $n: it failed, and the module is there"; return 1; }
				rmmod rsiw
				break
			fi
		done
		[ "$n" -gt 1 ] || { echo "$call never failed"; return 1; }
		echo "$call: $((n - 1)) failures"
		echo "$call" >>"$WORK/failed"
	done
}

linked() { [ -e /sys/class/infiniband/fault ]; }
# A command may fail although it has done its work: the answer may be lost.
link() {
	rdma link add fault type rsiw netdev fault0 >/dev/null 2>&1
	ibv_devinfo -d fault >/dev/null 2>&1
	rdma statistic show link fault/1 >/dev/null 2>&1
	rdma -d resource show >/dev/null 2>&1
	! linked || rdma link del fault
	! linked
}
good_link() {
	rdma link add fault type rsiw netdev fault0 && linked && rdma link del fault && ! linked
}

# Two processes: one makes a context, a PD, a CQ and a QP, the other a memory region.
objects() {
	local kind
	for kind in qp mr; do
		timeout -s KILL 20 limits "$DEV" "$kind" 100 1 </dev/null >"$WORK/$kind" 2>&1
		[ $? != 137 ] || return
	done
}
good_objects() { objects && grep -q '^1 good' "$WORK/qp" && grep -q '^1 good' "$WORK/mr" && nothing_stays; }
# The kernel counts as many objects as before.
as_before() { [ "$(resources_of "$DEV")" = "$before" ]; }
nothing_stays() { wait_for 5 as_before || { echo "before: $before, now: $(resources_of "$DEV")"; return 1; }; }

connection() {
	rping -s -a "$ADDR" -p 7345 -C 3 -S 20000 -V >"$WORK/server" 2>&1 &
	server=$!
	moments 40 listens_or_ended
	rping -c -a "$ADDR" -p 7345 -C 3 -S 20000 -V >"$WORK/client" 2>&1 &
	client=$!
	# A program with a failed call need neither end nor tell the other program. The other one has to
	# end when the first is gone.
	moments 40 over || kill -KILL "$server"
	moments 10 process_gone "$server" || kill -KILL "$server" 2>/dev/null
	wait_for 20 over || { kill -KILL "$client"; cat "$WORK/client"; return 1; }
	process_gone "$client" || kill -KILL "$client"
	wait_for 5 process_gone "$client" || return
	wait "$client" "$server" 2>/dev/null
	! grep -q 'data mismatch' "$WORK/client" "$WORK/server"
}
over() { process_gone "$client" || grep -qi error "$WORK/client"; }
# moments N COMMAND...: like wait_for, but for N tenths of a second on any kernel.
moments() {
	local i
	for ((i = 0; i < $1; i++)); do
		! "${@:2}" || return 0
		nap 0.1
	done
	return 1
}
process_gone() { ! kill -0 "$1" 2>/dev/null; }
listens_or_ended() { process_gone "$server" || ss -Hltn "sport = :7345" | grep -q .; }
good_connection() { nothing_stays && rping_self "" "$ADDR" 7346 >/dev/null && nothing_stays; }

# once CALL COMMAND...: the call fails during the command, which may succeed or fail.
once() {
	local call=$1
	shift
	arm "$call" 1 || return
	"$@" >/dev/null 2>&1
	fired || { echo "$call did not fail"; return 1; }
	echo "$call" >>"$WORK/failed"
}
# The attributes that the driver adds to `rdma resource show qp`.
told_details() {
	local status=0
	watching || return
	once rdma_nl_put_driver_u64 rdma -dd res show qp && rdma -dd res show qp | grep "link $DEV/" || status=1
	kill -KILL "$(<"$WORK/watch.pid")"
	return "$status"
}
run "loading the module survives failing calls" loads
run "the module loads after failing calls" load_driver || exit 1
before=$(resources_of "$DEV")
run "make a network device to add a link to" ip link add fault0 type veth peer name fault1
ip link set fault0 up
LIMIT=120 run "adding a link survives failing calls" each link good_link
LIMIT=120 run "making objects survives failing calls" each objects good_objects
LIMIT=200 run "a connection survives failing calls" each connection good_connection
LIMIT=60 run "rdma resource survives a failing call" told_details
ip link delete fault0
# No function is left that this job was meant to let fail, and did not.
each_failed() {
	local call never=()
	for call in "${calls[@]}"; do
		grep -qx "$call" "$WORK/failed" || never+=("$call")
	done
	echo "$(sort -u "$WORK/failed" | wc -l) of ${#calls[@]} functions failed; not these: ${never[*]:-none}"
	[ "${#never[@]}" = 0 ]
}
run "each function on the list has failed" each_failed
run "unload the driver" unload_driver
