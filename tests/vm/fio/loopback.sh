#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
#
# fio's rdma engine in each of its ways, in one host that talks to itself over lo.

. /tests/lib.sh
. /tests/fio/lib
plan 4

# Used by fio's functions.
# shellcheck disable=SC2034
TO=$LO
# The worker hands over to itself all the time.
run "load the driver on lo" load_on_lo tx_budget=0 || exit 1
each_way
