#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# SRP, the kernel's own initiator and LIO's target: login by the RDMA connection
# manager, data, fio's verification, a target that goes and comes back, logout.

. /tests/lib.sh
. /tests/srp/lib
plan 9

verify() { disk_verified "/dev/$(disk)" 8m; }
back() {
	on_target deaf_srp && wait_for 10 in_state blocked &&
		on_target hear_srp && wait_for 30 in_state running
}

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target serve_srp || exit 1
LIMIT=60 run "login" login || exit 1
LIMIT=60 run "data" data 16
LIMIT=60 run "fio" verify
LIMIT=60 run "the target is gone amid data, and comes back" amid_data 20 back
run "logout" logout
run "the target ends" on_target stop_srp
run "the drivers unload" both unload_driver
