#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 60
# interop: yes
#
# rping with compared data, over IPv4 and IPv6, in several sizes.

. /tests/lib.sh
. /tests/apps/lib
plan 7

run "load the driver on both hosts" both load_driver || exit 1
for size in 64 1000 65000; do
	run "rping over IPv4, $size bytes" try_rping "$PEER" "$size" 20
	run "rping over IPv6, $size bytes" try_rping "$PEER6" "$size" 20
done
