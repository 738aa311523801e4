#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 300
# kernel: stock
#
# All verbs tests between two hosts; with siw the quick ones. One that only waits,
# for half a minute, runs in verbs/silent, where that keeps nobody.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
which=(-x silent-peer)
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || which=(-q)
verbs "$PEER" "${which[@]}"
