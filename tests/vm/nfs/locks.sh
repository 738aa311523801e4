#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
#
# Several processes on a mount, and one on the server, lock, rename, link and unlink. A
# lock is still held after a restart of the server.

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
# together HERE THERE: runs locks.py HERE four times (# stands for a number) and locks.py THERE on the server.
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
	# Each process leaves every third of its files, and its target.
	[ "$(find "$MNT/dir" -type f | wc -l)" = $((5 * 11)) ] &&
		[ "$(on_server "find $EXPORT/dir -type f | wc -l")" = $((5 * 11)) ]
}
# The client has taken its lock back: a write to the mount waits for that.
recovered() { date >"$MNT/after" && found locked; }

run "load the driver on both hosts" both load_driver || exit 1
run "the NFS server listens" on_server serve_nfs || exit 1
run "mount NFS over RDMA" mount_nfs 4.2 || exit 1
run "a process on the NFS client takes a lock" hold
run "the NFS server knows the lock" found locked
LIMIT=60 run "processes on both hosts count under a lock" counted
LIMIT=60 run "processes on both hosts link, rename and unlink" named
LIMIT=30 run "the NFS server restarts with a lock held" restart_nfs rdma reclaim
LIMIT=60 run "the lock is held after the restart of the NFS server" recovered
run "the lock is released without an error" let_go
run "the NFS server knows that the lock is free" found free
run "unmount NFS" umount_nfs
run "the NFS server stops" on_server stop_nfs
