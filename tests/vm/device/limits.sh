#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
# kernel: stock
# pairs: rsiw,*
#
# How many objects a device has, for all processes together. Of protection domains, which are
# the cheapest; other kinds are counted by the same code.

. /tests/lib.sh
. /tests/device/lib
plan 7

MOST=131072 FIRST=100000

# pds NUMBER TEXT: what a process said of those that it made.
pds() {
	local said
	said=$(limits "$DEV" pd 1 </dev/null)
	echo "$said"
	[[ $said == "$1 $2"$'\n'* ]]
}
# A process that makes so many, and keeps them until it is killed.
keeps() {
	mkfifo "$WORK/in"
	sleep 300 >"$WORK/in" &
	started keeper sh -c "limits $DEV pd 1 $FIRST <$WORK/in"
	wait_for 30 grep -q "$FIRST good" "$WORK/keeper"
}
ends() { kill "$(pgrep -x limits)" && wait_for 30 nothing_left; }

run "load the driver" load_driver || exit 1
run "a process has many" keeps
# Each process has one more.
LIMIT=60 run "another one gets the rest" pds $((MOST - FIRST - 2)) "Cannot allocate memory"
LIMIT=60 run "which is there again when it has ended" pds $((MOST - FIRST - 2)) "Cannot allocate memory"
run "the first ends" ends
LIMIT=60 run "then one process can have them all" pds $((MOST - 1)) "Cannot allocate memory"
run "unload the driver" unload_driver
