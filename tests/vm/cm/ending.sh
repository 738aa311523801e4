#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 180
# pairs: rsiw,*
#
# Peers that do not let a connection end, that have vanished, or that say nothing: the driver has a time
# limit for each. Many cases run at once.

. /tests/lib.sh
. /tests/device/lib

mapfile -t cases < <(python3 /tests/cm/ending.py --list)
plan $((${#cases[@]} + 11))

run "load the driver" load_driver || exit 1
# A send buffer that a few messages fill, so that there is no room for a Terminate.
sysctl -q net.ipv4.tcp_wmem="4096 262144 262144"
told_by "stubborn peers" python3 /tests/cm/ending.py "$ADDR" 7200 stubborn
run "nothing of stubborn peers is left" wait_for 20 nothing_left
run "unload the driver" unload_driver
run "load the driver with short times" load_driver keepalive_idle_s=2 keepalive_interval_s=1 \
	user_timeout_ms=6000 responder_wait_ms=1500 recv_wait_ms=9000
told_by "vanishing peers" python3 /tests/cm/ending.py "$ADDR" 7220 vanishing
run "nothing of vanished peers is left" wait_for 20 nothing_left
run "unload the driver with short times" unload_driver
run "load the driver without some times" load_driver keepalive_idle_s=2 keepalive_interval_s=1 \
	keepalive_count=2 user_timeout_ms=0 responder_wait_ms=0
told_by "peers found by count" python3 /tests/cm/ending.py "$ADDR" 7230 by_count
run "nothing of peers found by count is left" wait_for 20 nothing_left
