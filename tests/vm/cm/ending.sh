#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# waits: yes
# timeout: 150
# pairs: rsiw,*
#
# Peers that do not let a connection end: each of the times after which it does, all at once.

. /tests/lib.sh
. /tests/device/lib

mapfile -t cases < <(python3 /tests/cm/ending.py --list)
plan $((${#cases[@]} + 4))

run "load the driver" load_driver || exit 1
# So that little fills it, and never has room for a Terminate besides.
sysctl -q net.ipv4.tcp_wmem="4096 4096 4096"
told_by python3 /tests/cm/ending.py "$ADDR" 7200
run "nothing is left" wait_for 20 nothing_left
run "unload the driver" unload_driver
