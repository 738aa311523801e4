#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 300
# kernel: stock
#
# All verbs tests between two hosts; the quick ones if siw is at one end. One test only
# waits, for half a minute: verbs/silent runs that beside other jobs.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
which=(-x silent-peer)
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || which=(-q)
verbs "$PEER" "${which[@]}" "$@"
