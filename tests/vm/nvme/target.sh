#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 300
# allow: nvme nvme\d: (failed to|Reconnecting|I/O tag)
#
# NVMe over RDMA, the kernel's own host and target: data, fio's verification,
# a reset of the controller, a target that goes and comes back.

. /tests/lib.sh
. /tests/nvme/lib
plan 11

reset() { echo 1 >"$(controller)/reset_controller" && wait_for 20 in_state live; }
back() {
	on_target deaf_nvme && wait_for 20 in_state connecting &&
		on_target "listen_nvme $PEER" && wait_for 30 in_state live
}

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target "serve_nvme $PEER" || exit 1
LIMIT=60 run "connect" patiently connect_nvme -i 1 -W 1 -P 1 --reconnect-delay=2 || exit 1
run "three queues for I/O" several_queues 3
LIMIT=60 run "data" data 24
LIMIT=60 run "fio" verify
run "the controller is reset" reset
LIMIT=60 run "data" data 4
LIMIT=60 run "the target is gone, and comes back" amid_data 20 back
run "disconnect" disconnect_nvme
run "the target ends" on_target stop_nvme
