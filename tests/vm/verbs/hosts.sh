#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 300
# kernel: stock
#
# All verbs tests between two hosts; the quick ones if siw is at one end. Those that only wait or
# judge times have a job of their own, verbs/timed.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
which=(-x 'silent-peer,moderate*')
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || which=(-q)
verbs "$PEER" "${which[@]}" "$@"
