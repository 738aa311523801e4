#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
#
# fio writes at random to a mount and verifies. Meanwhile the server restarts, and then
# the link goes down and up (RUN: seconds of each).

. /tests/lib.sh
. /tests/nfs/lib
plan 9

verify() {
	fio_verified --directory="$MNT" --bsrange=512-64k --size=4m --ioengine=psync --numjobs=2 "$@"
}
# disturbed COMMAND...: fio runs for RUN seconds, and the command every eight seconds.
: "${RUN:=8}"
disturbed() {
	local pid i
	verify --runtime="$RUN" --time_based --size=2m &
	pid=$!
	for ((i = 0; i < RUN / 8; i++)); do
		sleep $((i ? 6 : 2))
		"$@" || return
	done
	wait "$pid"
}
flap() { ip link set eth0 down; sleep 2; ip link set eth0 up; }

run "load the driver on both hosts" both load_driver || exit 1
run "the NFS server listens" on_server serve_nfs || exit 1
run "mount NFS over RDMA" mount_nfs 4.2 || exit 1
LIMIT=60 run "fio verifies data on the NFS mount" verify
LIMIT=$((RUN + 50)) run "fio verifies data while the NFS server restarts" disturbed restart_nfs
run "the NFS client has connected again" connected 2
LIMIT=$((RUN + 50)) run "fio verifies data while the link goes down and up" disturbed flap
run "unmount NFS" umount_nfs
run "the NFS server stops" on_server stop_nfs
