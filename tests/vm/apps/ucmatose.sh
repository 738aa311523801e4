#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# time: virtual
#
# ucmatose makes hundreds of connections at once.

. /tests/lib.sh
. /tests/apps/lib
plan 3

# siw maps no more than some forty queues to a process.
many=20 some=10
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" != rsiw,rsiw ] || many=500 some=500

run "load the driver on both hosts" both load_driver || exit 1
LIMIT=90 run "ucmatose makes $many connections over IPv4" try_ucmatose "$PEER" "$many"
LIMIT=90 run "ucmatose makes $some connections over IPv6" try_ucmatose "$PEER6" "$some"
