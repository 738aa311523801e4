#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: debug
# pairs: rsiw,*
#
# Every call of a kernel function that can fail fails once, in turn, wherever the driver makes it
# (tests/faults/calls.list: the debug kernel's module has them): while it is loaded and makes a device,
# in what processes ask for, and in connections, whose work is done by work items and callbacks. What is
# asked for then fails or not; nothing hangs, what arrives is right, nothing stays behind, and the next
# one is good (kmemleak looks at the end of the session). MOST: failures of a function in one scenario.

. /tests/lib.sh
. /tests/device/lib
: "${MOST:=1}"
plan 10

PARAMETERS=/sys/module/rsiw/parameters
mapfile -t calls < <(grep -ao '__wrap_[a-z0-9_]*' /build/rsiw.ko | sed 's/__wrap_//' | sort -u)
[ "${#calls[@]}" -gt 20 ] || { echo "a module without tests/faults"; exit 1; }

arm() { echo "$1" >"$PARAMETERS/fail_call" && echo "$2" >"$PARAMETERS/fail_nth"; }
# Whether it has failed; not any more from now on.
fired() {
	local left
	left=$(<"$PARAMETERS/fail_nth")
	echo 0 >"$PARAMETERS/fail_nth"
	[ "$left" -le 0 ]
}

# each SCENARIO CHECK: the scenario with each failure; the check after those of each function.
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

# The driver comes and goes. Its parameters cannot be written before it is there.
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
# Its answer may be what is lost.
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

# A context, a PD, a CQ and a QP; a region.
objects() {
	local kind
	for kind in qp mr; do
		timeout -s KILL 20 limits "$DEV" "$kind" 100 1 </dev/null >"$WORK/$kind" 2>&1
		[ $? != 137 ] || return
	done
}
good_objects() { objects && grep -q '^1 good' "$WORK/qp" && grep -q '^1 good' "$WORK/mr" && nothing_stays; }
# Of the kernel's objects.
as_before() { [ "$(resources_of "$DEV")" = "$before" ]; }
nothing_stays() { wait_for 5 as_before || { echo "before: $before, now: $(resources_of "$DEV")"; return 1; }; }

connection() {
	rping -s -a "$ADDR" -p 7345 -C 3 -S 20000 -V >"$WORK/server" 2>&1 &
	server=$!
	moments 40 listens_or_ended
	rping -c -a "$ADDR" -p 7345 -C 3 -S 20000 -V >"$WORK/client" 2>&1 &
	client=$!
	# A program that was refused something may not end, nor tell the other one. One that was not
	# has to, when the other one is gone.
	moments 40 over || kill -KILL "$server"
	moments 10 gone "$server" || kill -KILL "$server" 2>/dev/null
	wait_for 20 over || { kill -KILL "$client"; cat "$WORK/client"; return 1; }
	gone "$client" || kill -KILL "$client"
	wait_for 5 gone "$client" || return
	wait "$client" "$server" 2>/dev/null
	! grep -q 'data mismatch' "$WORK/client" "$WORK/server"
}
over() { gone "$client" || grep -qi error "$WORK/client"; }
# moments N COMMAND...: wait_for, for N tenths of a second on any kernel.
moments() {
	local i
	for ((i = 0; i < $1; i++)); do
		! "${@:2}" || return 0
		nap 0.1
	done
	return 1
}
gone() { ! kill -0 "$1" 2>/dev/null; }
listens_or_ended() { gone "$server" || ss -Hltn "sport = :7345" | grep -q .; }
good_connection() { nothing_stays && ping "" "$ADDR" 7346 >/dev/null && nothing_stays; }

# once CALL COMMAND...: it fails in the command, whatever comes of that.
once() {
	local call=$1
	shift
	arm "$call" 1 || return
	"$@" >/dev/null 2>&1
	fired || { echo "$call did not fail"; return 1; }
	echo "$call" >>"$WORK/failed"
}
# What the driver adds to what the kernel tells of a queue pair.
told_details() {
	local status=0
	watching || return
	once rdma_nl_put_driver_u64 rdma -dd res show qp && rdma -dd res show qp | grep "link $DEV/" || status=1
	kill -KILL "$(<"$WORK/watch.pid")"
	return "$status"
}
# An address that means something on its interface only: a listener's socket is bound to that.
link_local() {
	local address
	address=$(ip -6 -o addr show dev eth0 scope link | grep -o 'fe80::[0-9a-f:]*')
	once sock_bindtoindex timeout 5 rping -s -a "$address%eth0" -p 7347 -C 1 || return
	rping -s -a "$address%eth0" -p 7348 -C 1 >/dev/null 2>&1 &
	listens 7348
	local status=$?
	kill -KILL "$!"
	return "$status"
}

run "the driver itself" loads
run "it loads afterwards" load_driver || exit 1
before=$(resources_of "$DEV")
run "something to add a link to" ip link add fault0 type veth peer name fault1
ip link set fault0 up
LIMIT=120 run "a link" each link good_link
LIMIT=120 run "objects of a process" each objects good_objects
LIMIT=200 run "a connection" each connection good_connection
LIMIT=60 run "what is told of a queue pair" told_details
LIMIT=60 run "a listener on a link-local address" link_local
ip link delete fault0
# None is left that this job only means to let fail.
each_failed() {
	local call never=()
	for call in "${calls[@]}"; do
		grep -qx "$call" "$WORK/failed" || never+=("$call")
	done
	echo "$(sort -u "$WORK/failed" | wc -l) of ${#calls[@]} functions failed; not these: ${never[*]:-none}"
	[ "${#never[@]}" = 0 ]
}
run "each function has failed" each_failed
run "unload the driver" unload_driver
