#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
#
# fio's rdma engine with each verb, on one host, which connects to itself over lo.

. /tests/lib.sh
. /tests/fio/lib
plan 4

# Used by fio's functions.
# shellcheck disable=SC2034
TO=$LO
# With the least tx_budget_kib the worker sends little at a time, and queues itself again and again.
run "load the driver on lo" load_on_lo tx_budget_kib=64 || exit 1
each_way
