#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 150
# allow: nvme nvme\d: (failed to|Reconnecting|I/O tag)
#
# NVMe over RDMA, the kernel's own host and target: data, fio's verification,
# a reset of the controller, a target that goes and comes back.

. /tests/lib.sh
. /tests/nvme/lib
plan 11

reset() { echo 1 >"$(controller)/reset_controller" && wait_for 20 live; }
back() {
	on_target deaf_nvme || return
	sleep 1
	on_target "listen_nvme $PEER" || return
	wait_for 30 live
}

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target "serve_nvme $PEER" || exit 1
run "connect" connect_nvme -i 2 --reconnect-delay=2 || exit 1
LIMIT=60 run "data" data 24
LIMIT=60 run "fio" verify
run "the controller is reset" reset
LIMIT=60 run "data" data 4
LIMIT=60 run "the target is gone, and comes back" back
LIMIT=60 run "data" data 4
run "disconnect" disconnect_nvme
run "the target ends" on_target stop_nvme
