#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
#
# fio's rdma engine with each verb, between two hosts.

. /tests/lib.sh
. /tests/fio/lib
plan 4

run "load the driver on both hosts" both load_driver || exit 1
each_way
