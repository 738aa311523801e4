#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 300
# kernel: stock
#
# All verbs tests between two hosts; with siw the quick ones.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
quick=
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || quick=-q
# shellcheck disable=SC2086 # no word at all without it
verbs "$PEER" $quick
