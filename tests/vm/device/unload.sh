#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
# pairs: rsiw,*
#
# rmmod while processes hold the device and connections are busy; and load, use and rmmod ROUNDS times.

. /tests/lib.sh
. /tests/device/lib
: "${ROUNDS:=$([ "$RSIW_KERNEL" = debug ] && echo 2 || echo 10)}"
plan 8

run "load the driver" load_driver || exit 1
run "a process holds the device" watching
run "start connections and listeners" busy "$ADDR" "$DEV"
# The kernel removes the module's devices first, and then the module.
rmmod_now() { rdma link; rmmod "$RSIW_DRIVER"; }
unloaded() { rmmod_now && [ ! -e "/sys/module/$RSIW_DRIVER" ]; }
run "the module unloads while its device is busy" within "$(limit 20)" unloaded
run "a process with objects is told of rmmod" saw_the_end
run "rmmod ends connections and leaves no socket" busy_ends

# Each round has a connection, which rmmod ends in every other one.
load_and_unload() {
	local i
	for ((i = 1; i <= ROUNDS; i++)); do
		load_driver || { echo "round $i: not loaded"; return 1; }
		if [ $((i % 2)) = 0 ]; then
			busy "$ADDR" "$DEV" || { echo "round $i: not busy"; return 1; }
			within "$(limit 20)" rmmod "$RSIW_DRIVER" || { echo "round $i: rmmod"; return 1; }
			busy_ends || { echo "round $i: something stays"; return 1; }
		else
			rping_self "$DEV" "$ADDR" $((7320 + i)) || { echo "round $i: no data"; return 1; }
			rmmod "$RSIW_DRIVER" || { echo "round $i: rmmod of an idle device"; return 1; }
		fi
	done
}
LIMIT=120 run "the module loads, works and unloads $ROUNDS times" load_and_unload

# rmmod waits for an rdma link del that is under way.
unload_meanwhile() {
	local i pid
	RANDOM=1
	for ((i = 1; i <= ROUNDS; i++)); do
		load_driver || { echo "round $i: not loaded"; return 1; }
		rdma link del "$DEV" &
		pid=$!
		sleep "0.0$((RANDOM % 10))"
		within "$(limit 20)" rmmod "$RSIW_DRIVER" || { echo "round $i: rmmod"; return 1; }
		# rdma link del fails if it came too late.
		wait "$pid" || true
	done
}
LIMIT=60 run "the module unloads while rdma link del is under way" unload_meanwhile
