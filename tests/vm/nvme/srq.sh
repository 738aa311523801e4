#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# kernel: stock
#
# NVMe over RDMA with a target whose queues share their receives; and over IPv6.

. /tests/lib.sh
. /tests/nvme/lib
plan 13

move_to_ipv6() { on_target "deaf_nvme && listen_nvme $PEER6"; }

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target "serve_nvme $PEER use_srq=1" || exit 1
run "connect" connect_nvme -i 1 -W 1 -P 1 || exit 1
run "there is a shared receive queue" peer_sh 'rdma resource show srq | grep "dev rsiw0.*nvmet_rdma"'
LIMIT=60 run "data" data 8
LIMIT=60 run "fio" verify
run "disconnect" disconnect_nvme
run "IPv6: the target listens" move_to_ipv6
TARGET=$PEER6 run "IPv6: connect" connect_nvme -i 1 -W 1 -P 1
run "IPv6: the controller's address is the peer's" has_address "$PEER6"
LIMIT=60 run "IPv6: data" data 4
run "IPv6: disconnect" disconnect_nvme
run "the target ends" on_target stop_nvme
