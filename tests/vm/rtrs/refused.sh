#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
# kernel: debug
#
# RTRS sends each request, here of RNBD, as an RDMA Write with Immediate, which the
# device does not have: mapping a disk has to fail soon and without harm.

. /tests/lib.sh
plan 9

# The memory for requests is 128 KiB times the depth.
serve_rnbd() { modprobe rtrs-server sess_queue_depth=32 && modprobe rnbd-server && listens 1234; }
map() {
	echo "sessname=test path=ip:$PEER device_path=/dev/ram0" \
		>/sys/devices/virtual/rnbd-client/ctl/map_device
}
# The first request is refused: connections were set up before.
first_request_refused() { dmesg | grep 'rtrs_client.*<test>: .* request failed: error=-22'; }
no_qp() { [ -z "$(rdma resource show qp)$(peer rdma resource show qp)" ]; }

run "load the driver on both hosts" both load_driver || exit 1
run "the RNBD server listens" peer_sh "$(declare -f serve_rnbd); serve_rnbd" || exit 1
run "load the RNBD client" modprobe rnbd-client || exit 1
fails "mapping an RNBD disk fails" map
run "the first RTRS request is refused" first_request_refused
run "the connections of RTRS end" wait_for 20 no_qp
peer_bg server rping -s -C 20
server_up 7174
run "rping connects after the refused request" rping -c -a "$PEER" -C 20
run "the RNBD client unloads" modprobe -r rnbd-client
run "the RNBD server unloads" peer modprobe -r rnbd-server
