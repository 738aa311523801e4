#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
#
# fio writes at random to a mount, with verification; in the middle of it the
# server is gone for a while, then the link (RUN: seconds of each).

. /tests/lib.sh
. /tests/nfs/lib
plan 9

verify() {
	fio_verified --directory="$MNT" --bsrange=512-64k --size=4m --ioengine=psync --numjobs=2 "$@"
}
# For RUN seconds, disturbed every eight.
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
restart() { on_server 'rpc.nfsd 0; sleep 1; serve_nfs'; }
flap() { ip link set eth0 down; sleep 2; ip link set eth0 up; }

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_nfs || exit 1
run "mount" mount_nfs 4.2 || exit 1
LIMIT=60 run "fio" verify
LIMIT=$((RUN + 50)) run "the server restarts under it" disturbed restart
run "the client has connected again" connected 2
LIMIT=$((RUN + 50)) run "the link flaps under it" disturbed flap
run "unmount" umount_nfs
run "the server stops" on_server stop_nfs
