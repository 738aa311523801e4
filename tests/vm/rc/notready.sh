#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 180
# pairs: rsiw,rsiw
# time: virtual
#
# Sends that find no receive on another host: how often they are tried again (rnr_retry), and for how long they wait
# (min_rnr_timer). rc/rnr has more of it on one host, tls/rc some with TLS, rc/calls a peer that knows nothing of it.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
. /tests/rc/notready
plan 9

run "load the driver on both hosts" both load_driver || exit 1
run "make a link on both hosts" rc_add_both || exit 1
modprobe sch_netem
run "the way takes 10 ms" tc qdisc add dev eth0 root netem delay 10ms limit 100000
own_library
not_ready
end_pair
run "no connection is left" wait_for 20 no_connections
