#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
# kernel: debug
#
# RTRS, for its user RNBD, sends each request as an RDMA Write with immediate
# data, which the device has not: mapping a disk must fail, soon and without harm.

. /tests/lib.sh
plan 9

# The memory for requests is 128 KiB times the depth.
serve() { modprobe rtrs-server sess_queue_depth=32 && modprobe rnbd-server && listens 1234; }
map() {
	echo "sessname=test path=ip:$PEER device_path=/dev/ram0" \
		>/sys/devices/virtual/rnbd-client/ctl/map_device
}
# Not by something before the first request: its connections are there.
refused() { dmesg | grep 'rtrs_client.*<test>: .* request failed: error=-22'; }
no_qp() { [ -z "$(rdma resource show qp)$(peer rdma resource show qp)" ]; }

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" peer_sh "$(declare -f serve); serve" || exit 1
run "the client" modprobe rnbd-client || exit 1
fails "a disk is not mapped" map
run "its first request is refused" refused
run "its connections go" wait_for 20 no_qp
peer_bg server rping -s -C 20
server_up 7174
run "rping" rping -c -a "$PEER" -C 20
run "the client goes" modprobe -r rnbd-client
run "the server goes" peer modprobe -r rnbd-server
