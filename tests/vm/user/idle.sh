#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# A user whose thread of SCHED_IDLE has no processor while it is inside of the
# driver: his own connections wait for it, nobody else's do.

. /tests/lib.sh
plan 4

ordinary() { setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"; }
most() { sort -n | tail -n 1; }
hold_up() {
	local status
	ordinary loiter "$ADDR" 7601 4 >"$WORK/loiter" 2>&1
	status=$?
	cat "$WORK/loiter"
	return "$status"
}
held() { sed -n 's/^held //p' "$WORK/loiter" | most; }

run "load the driver" load_driver || exit 1
peer_bg server taskset -c 0 rping -s -P -a "$ADDR" -p 7600
server_up 7600
rm -f /tmp/enough
# Others connect all the time.
peer_bg others taskset -c 0 python3 /tests/cm/wire.py responder keeps_up "$ADDR" 7600
wait_for 30 grep -q begun "$WORK/others"
LIMIT=80 run "a user holds his connections up" hold_up
disturbed() { [ "$(held)" -ge 1000 ]; }
run "one of them for a second or more" disturbed
touch /tmp/enough
keep_up() {
	peer_end others 30 || return
	grep -q '^ok' "$WORK/others"
}
run "others connect in less than half a second" keep_up
rm -f /tmp/enough
peer_kill server
