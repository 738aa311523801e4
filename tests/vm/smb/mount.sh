#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: debug
#
# SMB Direct, the kernel's own client and server: data and names go there and
# come back, with a server that goes and comes back in between.

. /tests/lib.sh
. /tests/smb/lib
plan 11

verify() {
	fio_verified --directory="$MNT" --bsrange=512-64k --size=512k --ioengine=psync --numjobs=2
}
# A call that finds the connection gone may fail; the mount must not.
back() {
	on_server end_smb || return
	on_server serve_smb || return
	wait_for 30 ls "$MNT"
}

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_smb || exit 1
run "mount" mount_smb || exit 1
run "it is RDMA" is_rdma
# 4096 bytes and less go without RDMA Read and Write.
LIMIT=60 run "data" data 0 1 1340 1341 4096 4097 70001 1048577
LIMIT=60 run "names" names
LIMIT=60 run "fio" verify
LIMIT=60 run "the server is gone, and comes back" back
LIMIT=60 run "data" data 1000 70001
run "unmount" umount_smb
run "the server stops" on_server stop_smb
