#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
# pairs: rsiw,*
#
# rmmod with everything attached, and many times (ROUNDS).

. /tests/lib.sh
. /tests/device/lib
: "${ROUNDS:=$([ "$RSIW_KERNEL" = debug ] && echo 2 || echo 10)}"
plan 8

run "load the driver" load_driver || exit 1
run "a process holds the device" watching
run "busy: connections and listeners" busy "$ADDR" "$DEV"
# The kernel ends the devices of a module first; only then it can go.
rmmod_now() { rdma link; rmmod "$RSIW_DRIVER"; }
unloaded() { rmmod_now && [ ! -e "/sys/module/$RSIW_DRIVER" ]; }
run "rmmod while busy" within "$(limit 20)" unloaded
run "the process that watched saw the end" saw_the_end
run "what was connected noticed, and no socket stays" busy_ends

# Each time with a connection, ended by the unload in every other round.
rounds() {
	local i
	for ((i = 1; i <= ROUNDS; i++)); do
		load_driver || { echo "round $i: not loaded"; return 1; }
		if [ $((i % 2)) = 0 ]; then
			busy "$ADDR" "$DEV" || { echo "round $i: not busy"; return 1; }
			within "$(limit 20)" rmmod "$RSIW_DRIVER" || { echo "round $i: rmmod"; return 1; }
			busy_ends || { echo "round $i: something stays"; return 1; }
		else
			ping "$DEV" "$ADDR" $((7320 + i)) || { echo "round $i: no data"; return 1; }
			rmmod "$RSIW_DRIVER" || { echo "round $i: rmmod of an idle device"; return 1; }
		fi
	done
}
LIMIT=120 run "many times loaded, used and unloaded" rounds

# rmmod waits for whoever ends a device at that moment.
unload_meanwhile() {
	local i pid
	for ((i = 1; i <= ROUNDS; i++)); do
		load_driver || { echo "round $i: not loaded"; return 1; }
		rdma link del "$DEV" &
		pid=$!
		sleep "0.0$((RANDOM % 10))"
		within "$(limit 20)" rmmod "$RSIW_DRIVER" || { echo "round $i: rmmod"; return 1; }
		# It may have come too late.
		wait "$pid" || true
	done
}
LIMIT=60 run "rmmod while a device is being removed" unload_meanwhile
