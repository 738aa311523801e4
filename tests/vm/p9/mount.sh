#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# 9P over RDMA with the kernel's client: data and names are written and read back. A peer
# sends bad messages to the server; the server goes away.

. /tests/lib.sh
. /tests/p9/lib
plan 13

# When the server has gone, calls fail and do not wait, and the mount can be removed. No
# call is under way when the server goes, and none begins before the client is told: of
# such a call 9pnet_rdma (Linux 7.2) would not wake the process, and would leak the
# receive for the answer, with a warning. The client is told by an event, which follows
# the error of the QP.
qp_in_rts() { rdma resource show qp | grep "state RTS"; }
calls_fail_without_server() {
	qp_in_rts && stop_server && wait_for 10 eval '! qp_in_rts' || return
	nap 1
	wait_for 10 eval '! ls $MNT' || return
	! echo x >"$MNT/x" || return
	umount_9p
}

run "load the driver on both hosts" both load_driver || exit 1
LIMIT=60 run "the 9P server listens" start_server || exit 1
run "mount 9P over RDMA" mount_9p || exit 1
LIMIT=60 run "the 9P mount holds data" data
LIMIT=60 run "the 9P mount holds names" names
run "unmount 9P" umount_9p
LIMIT=60 run "the 9P server outlives bad messages" /tests/p9/rude.py "$PEER" "$PORT"
run "mount 9P with small messages" mount_9p msize=8192,cache=loose
LIMIT=60 run "the 9P mount with small messages holds names" names
run "calls on the 9P mount fail when the server has gone" calls_fail_without_server
LIMIT=60 run "a second 9P server listens" start_server
run "9P mounts and unmounts with the second server" eval 'mount_9p && ls $MNT && umount_9p'
run "the 9pnet_rdma module unloads" wait_for 10 rmmod 9pnet_rdma
