#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# fio writes at random to a mount, with verification; in the middle of it the
# server is gone for a while, then the link.

. /tests/lib.sh
. /tests/nfs/lib
plan 8

verify() {
	fio_verified --directory="$MNT" --bsrange=512-64k --size=8m --ioengine=psync --numjobs=2 "$@"
}
disturbed() {
	verify --runtime=12 --time_based --size=2m &
	local pid=$!
	sleep 2
	"$@"
	wait "$pid"
}
restart() { on_server 'rpc.nfsd 0; sleep 1; serve_nfs'; }
flap() { ip link set eth0 down; sleep 2; ip link set eth0 up; }

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_nfs || exit 1
run "mount" mount_nfs 4.2 || exit 1
LIMIT=60 run "fio" verify
LIMIT=60 run "the server restarts under it" disturbed restart
LIMIT=60 run "the link flaps under it" disturbed flap
run "unmount" umount_nfs
run "the server stops" on_server stop_nfs
