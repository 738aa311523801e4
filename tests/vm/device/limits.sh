#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
# kernel: stock
# pairs: rsiw,*
#
# All processes together get as many objects of a device as it has. Protection domains stand for all kinds:
# they are the cheapest, and the same code counts the others.

. /tests/lib.sh
. /tests/device/lib
plan 7

MOST=131072 FIRST=100000

# pds NUMBER TEXT: a process makes as many protection domains as it can; it gets NUMBER, and then the error TEXT.
pds() {
	local said
	said=$(limits "$DEV" pd 1 </dev/null)
	echo "$said"
	[[ $said == "$1 $2"$'\n'* ]]
}
# A process makes FIRST protection domains, and keeps them until it is killed.
keeps() {
	mkfifo "$WORK/in"
	sleep 300 >"$WORK/in" &
	started keeper sh -c "limits $DEV pd 1 $FIRST <$WORK/in"
	wait_for 30 grep -q "$FIRST good" "$WORK/keeper"
}
keeper_ends() { kill "$(pgrep -x limits)" && wait_for 30 nothing_left; }

run "load the driver" load_driver || exit 1
run "a process makes $FIRST protection domains" keeps
# The program limits has one more from the start.
LIMIT=60 run "a second process gets the other protection domains" pds $((MOST - FIRST - 2)) "Cannot allocate memory"
LIMIT=60 run "a third process gets what the second one has freed" pds $((MOST - FIRST - 2)) "Cannot allocate memory"
run "the first process ends and leaves no object" keeper_ends
LIMIT=60 run "one process gets all protection domains" pds $((MOST - 1)) "Cannot allocate memory"
run "unload the driver" unload_driver
