#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 60
# time: virtual
#
# rdma-core's example clients and servers.

. /tests/lib.sh
. /tests/apps/lib
plan 4

run "load the driver on both hosts" both load_driver || exit 1
run "rdma_client exchanges data over IPv4" try_rdma_client "$PEER"
run "rdma_client exchanges data over IPv6" try_rdma_client "$PEER6"
run "rdma_xclient exchanges data over IPv4" try_rdma_xclient "$PEER"
