#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# SRP with the kernel's own initiator and LIO's target: login through the RDMA
# connection manager, data, fio's verification, a target that stops and listens again,
# logout.

. /tests/lib.sh
. /tests/srp/lib
plan 9

verify() { disk_verified "/dev/$(disk)" 8m; }
restart_target() {
	on_target deaf_srp && wait_for 10 in_state blocked &&
		on_target hear_srp && wait_for 30 in_state running
}

run "load the driver on both hosts" both load_driver || exit 1
run "the SRP target listens" on_target serve_srp || exit 1
LIMIT=60 run "the SRP initiator logs in" login || exit 1
LIMIT=60 run "the SRP disk holds data" data 16
LIMIT=60 run "fio verifies data on the SRP disk" verify
LIMIT=60 run "SRP data survive a restart of the target" amid_data 20 restart_target
run "the SRP initiator logs out" logout
run "the SRP target stops" on_target stop_srp
run "unload the drivers" both unload_driver
