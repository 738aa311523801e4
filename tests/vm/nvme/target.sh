#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 300
# allow: nvme nvme\d: (failed to|Reconnecting|I/O tag)
#
# NVMe over RDMA, with the kernel's own host and target: data, fio's verification, a
# reset of the controller, a target that stops and listens again.

. /tests/lib.sh
. /tests/nvme/lib
plan 11

reset() { echo 1 >"$(controller)/reset_controller" && wait_for 20 in_state live; }
restart_target() {
	on_target deaf_nvme && wait_for 20 in_state connecting &&
		on_target "listen_nvme $PEER" && wait_for 30 in_state live
}

run "load the driver on both hosts" both load_driver || exit 1
run "the NVMe target listens" on_target "serve_nvme $PEER" || exit 1
LIMIT=60 run "the NVMe host connects" patiently connect_nvme -i 1 -W 1 -P 1 --reconnect-delay=2 || exit 1
run "the NVMe controller has three queues for I/O" several_queues 3
LIMIT=60 run "the NVMe disk holds data" data 24
LIMIT=60 run "fio verifies data on the NVMe disk" verify
run "the NVMe controller can be reset" reset
LIMIT=60 run "the NVMe disk holds data after the reset" data 4
LIMIT=60 run "NVMe data survive a restart of the target" amid_data 20 restart_target
run "the NVMe host disconnects" disconnect_nvme
run "the NVMe target stops" on_target stop_nvme
