#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# kernel: stock
#
# NVMe over RDMA with a target whose queues share their receives.

. /tests/lib.sh
. /tests/nvme/lib
plan 8

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target "serve_nvme $PEER use_srq=1" || exit 1
run "connect" connect_nvme -i 1 -W 1 -P 1 || exit 1
run "there is a shared receive queue" peer_sh 'rdma resource show srq | grep "dev rsiw0.*nvmet_rdma"'
LIMIT=60 run "data" data 8
LIMIT=60 run "fio" verify
run "disconnect" disconnect_nvme
run "the target ends" on_target stop_nvme
