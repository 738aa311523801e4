#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 60
# kernel: debug
#
# A queue pair is destroyed while another thread is in rdma_disconnect(), over lo: in the driver that thread is late at
# each lock and each wait, by up to LATE us (tests/faults/calls.list).

. /tests/lib.sh
. /tests/verbs/lib

load_on_lo || exit 1
cd /sys/module/rsiw/parameters || exit 1
echo disconnects >late_thread || exit 1
echo "${LATE:=100000}" >late_us || exit 1
verbs "$LO" -t destroy-while-disconnecting,destroy-while-disconnecting-error
