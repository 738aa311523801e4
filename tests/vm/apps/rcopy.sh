#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 150
# time: virtual
#
# rcopy copies a file of 64 MiB over rsockets; the copy is compared. Over IPv4 only, as
# the server of rcopy listens on nothing else.

. /tests/lib.sh
. /tests/apps/lib
plan 2

run "load the driver on both hosts" both load_driver || exit 1
LIMIT=130 run "rcopy copies 64 MiB" try_rcopy "$PEER" 64
