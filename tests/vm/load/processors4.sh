#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# cpus: 4
# timeout: 240
# pairs: rsiw,rsiw
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# Two hosts with four processors each, all of which work for RDMA at once: random operations with
# all data compared, threads, and transfers of all kinds in both directions.

. /tests/lib.sh
. /tests/perftest/lib
. /tests/load/lib
[ -e /sys/class/net/eth0/queues/rx-0/rps_cpus ] || skip_all "this kernel has no RPS"
processors 4
