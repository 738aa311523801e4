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
# What is under way must get there all the same: SCSI tries again. Not so with siw
# (Linux 7.2) as the target's: now and then work requests of a QP in error never
# complete there, and ib_srpt waits for ever for their commands.
back() {
	local writer=
	if [ "$RSIW_DRIVER_PEER" != siw ]; then
		data 20 &
		writer=$!
		sleep 0.5
	fi
	on_target deaf_srp || return
	wait_for 10 in_state blocked || return
	on_target hear_srp || return
	wait_for 30 in_state running || return
	# shellcheck disable=SC2086 # one or none
	wait $writer && data 4
}

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target serve_srp || exit 1
LIMIT=60 run "login" login || exit 1
LIMIT=60 run "data" data 16
LIMIT=60 run "fio" verify
LIMIT=60 run "the target is gone amid data, and comes back" back
run "logout" logout
run "the target ends" on_target stop_srp
run "the drivers unload" both unload_driver
