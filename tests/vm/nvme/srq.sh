#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# kernel: stock
#
# NVMe over RDMA with a target that uses a shared receive queue; and over IPv6.

. /tests/lib.sh
. /tests/nvme/lib
plan 13

move_to_ipv6() { on_target "deaf_nvme && listen_nvme $PEER6"; }

run "load the driver on both hosts" both load_driver || exit 1
run "the NVMe target with an SRQ listens" on_target "serve_nvme $PEER use_srq=1" || exit 1
run "the NVMe host connects to a target with an SRQ" connect_nvme -i 1 -W 1 -P 1 || exit 1
run "the NVMe target has a shared receive queue" peer_sh 'rdma resource show srq | grep "dev rsiw0.*nvmet_rdma"'
LIMIT=60 run "the NVMe disk of a target with an SRQ holds data" data 8
LIMIT=60 run "fio verifies data on a target with an SRQ" verify
run "the NVMe host disconnects" disconnect_nvme
run "the NVMe target listens on IPv6" move_to_ipv6
TARGET=$PEER6 run "the NVMe host connects over IPv6" connect_nvme -i 1 -W 1 -P 1
run "the NVMe controller has the peer's IPv6 address" has_address "$PEER6"
LIMIT=60 run "the NVMe disk over IPv6 holds data" data 4
run "the NVMe host disconnects over IPv6" disconnect_nvme
run "the NVMe target stops" on_target stop_nvme
