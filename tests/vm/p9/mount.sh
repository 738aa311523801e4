#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# 9P over RDMA, the kernel's client: data and names go there and come back; a
# server that is spoken to rudely, and one that goes away.

. /tests/lib.sh
. /tests/p9/lib
plan 13

# What is tried fails and does not wait, and the mount can be taken away. Nothing is
# under way when the server goes, and nothing is begun before the client was told:
# 9pnet_rdma (Linux 7.2) would not wake who waits for it, and leak the receive that was
# posted for the answer, with a warning. It is told by an event behind the QP's error.
connected() { rdma resource show qp | grep "state RTS"; }
gone() {
	connected && stop_server && wait_for 10 eval '! connected' || return
	nap 1
	wait_for 10 eval '! ls $MNT' || return
	! echo x >"$MNT/x" || return
	umount_9p
}

run "load the driver on both hosts" both load_driver || exit 1
LIMIT=60 run "the server listens" start_server || exit 1
run "mount" mount_9p || exit 1
LIMIT=60 run "data" data
LIMIT=60 run "names" names
run "unmount" umount_9p
LIMIT=60 run "what no client says" /tests/p9/rude.py "$PEER" "$PORT"
run "mount, with small messages" mount_9p msize=8192,cache=loose
LIMIT=60 run "names" names
run "the server is gone" gone
LIMIT=60 run "another one listens" start_server
run "mount and unmount" eval 'mount_9p && ls $MNT && umount_9p'
run "nothing stays" wait_for 10 rmmod 9pnet_rdma
