#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 150
#
# A file of 64 MiB over rsockets, compared where it arrived. By IPv4: its server
# listens to that only.

. /tests/lib.sh
. /tests/apps/lib
plan 2

run "load the driver on both hosts" both load_driver || exit 1
LIMIT=130 run "rcopy of 64 MiB" try_rcopy "$PEER" 64
