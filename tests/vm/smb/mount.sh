#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: debug
#
# SMB Direct with the kernel's own client and server: data and names are written and
# read back, also after a restart of the server.

. /tests/lib.sh
. /tests/smb/lib
plan 11

verify() {
	fio_verified --directory="$MNT" --bsrange=512-64k --size=512k --ioengine=psync --numjobs=2
}
# A call may fail that finds the connection gone; the mount has to work again.
restart_server() {
	on_server end_smb || return
	on_server serve_smb || return
	wait_for 30 ls "$MNT"
}

run "load the driver on both hosts" both load_driver || exit 1
run "the SMB server listens" on_server serve_smb || exit 1
run "mount SMB over RDMA" mount_smb || exit 1
run "the SMB mount uses SMB Direct" is_rdma
# 4096 bytes and less go without RDMA Read and Write.
LIMIT=60 run "the SMB mount holds data" data 0 1 1340 1341 4096 4097 70001 1048577
LIMIT=60 run "the SMB mount holds names" names
LIMIT=60 run "fio verifies data on the SMB mount" verify
LIMIT=60 run "the SMB mount survives a restart of the server" restart_server
LIMIT=60 run "the SMB mount holds data after the restart" data 1000 70001
run "unmount SMB" umount_smb
run "the SMB server stops" on_server stop_smb
