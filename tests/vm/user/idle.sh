#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# A thread of a user, with the policy SCHED_IDLE, gets no processor while it runs code
# of the driver. The user's own connections wait for it; those of others do not.

. /tests/lib.sh
plan 4

most() { sort -n | tail -n 1; }
# The thread mostly stops in code of the driver, but not always; so there are up to four tries.
hold_up() {
	local status _
	for _ in 1 2 3 4; do
		ordinary loiter "$ADDR" 7601 4 >"$WORK/loiter" 2>&1
		status=$?
		cat "$WORK/loiter"
		[ "$status" = 0 ] || return "$status"
		! disturbed || return 0
	done
}
held() { sed -n 's/^held //p' "$WORK/loiter" | most; }
disturbed() { [ "$(held)" -ge 1000 ]; }

run "load the driver" load_driver || exit 1
peer_bg server taskset -c 0 rping -s -P -a "$ADDR" -p 7600
server_up 7600
rm -f /tmp/enough
# Others connect again and again.
peer_bg others taskset -c 0 python3 /tests/cm/wire.py responder keeps_up "$ADDR" 7600
wait_for 30 grep -q begun "$WORK/others"
LIMIT=80 run "a user holds up connections of his own" hold_up
run "the user holds a connection up for a second or more" disturbed
touch /tmp/enough
keep_up() {
	peer_end others 30 || return
	grep -q '^ok' "$WORK/others"
}
run "others connect in half a second beside that user" keep_up
rm -f /tmp/enough
peer_kill server
