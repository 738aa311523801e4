#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 200
# kernel: stock
#
# iSER without the port mapper: the portal's TCP listener, which LIO wants in any
# case, is in a network namespace of its own. So siw can be at either end.

. /tests/lib.sh
. /tests/iser/lib
plan 11

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target "serve_iser $PEER unshare -n" || exit 1
run "the initiator's daemon" start_initiator
LIMIT=60 run "discovery" patiently discover iser
whole_session
