#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
#
# Locks, renames, links and unlinks by many processes on a mount and one on the
# server; what is locked stays so when the server starts again.

. /tests/lib.sh
. /tests/nfs/lib
plan 13

LOCKS="python3 /tests/nfs/locks.py"
hold() {
	$LOCKS hold "$MNT/held" "$WORK/end" >"$WORK/held" 2>&1 &
	wait_for 10 grep -qx held "$WORK/held"
}
let_go() {
	touch "$WORK/end"
	wait_for 20 grep -qx "still held" "$WORK/held" || { cat "$WORK/held"; false; }
}
# found free|locked
found() { on_server "$LOCKS probe $EXPORT/held" | grep -qx "$1"; }
# together HERE THERE: four of the first (# stands for which), and the second on the server.
together() {
	local pids=() pid i
	for i in 1 2 3 4; do
		# shellcheck disable=SC2086 # words
		$LOCKS ${1//#/$i} &
		pids+=($!)
	done
	on_server "$LOCKS $2" || return
	for pid in "${pids[@]}"; do wait "$pid" || return; done
}
counted() {
	together "count $MNT/number 10" "count $EXPORT/number 40" || return
	[ "$(cat "$MNT/number")" = 80 ] && [ "$(on_server cat "$EXPORT/number")" = 80 ]
}
named() {
	mkdir "$MNT/dir" && together "names $MNT/dir here# 30" "names $EXPORT/dir there 30" || return
	forget
	# Of each: every third of its files, and the target.
	[ "$(find "$MNT/dir" -type f | wc -l)" = $((5 * 11)) ] &&
		[ "$(on_server "find $EXPORT/dir -type f | wc -l")" = $((5 * 11)) ]
}
restart() { on_server 'rpc.nfsd 0; sleep 1; serve_nfs rdma reclaim'; }
# The client took its lock back: a write to the mount waits until it has.
recovered() { date >"$MNT/after" && found locked; }

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_nfs || exit 1
run "mount" mount_nfs 4.2 || exit 1
run "a lock is taken" hold
run "the server knows" found locked
LIMIT=60 run "counting under a lock, on both sides" counted
LIMIT=60 run "links, renames, unlinks, on both sides" named
LIMIT=30 run "the server starts again" restart
LIMIT=60 run "what was locked is locked" recovered
run "unlocked, without a complaint" let_go
run "the server knows" found free
run "unmount" umount_nfs
run "the server stops" on_server stop_nfs
