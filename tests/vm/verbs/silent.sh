#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 120
# pairs: rsiw,*
#
# The verbs test of a peer that connects and then says nothing. It only waits, for half a minute.

. /tests/lib.sh
. /tests/verbs/lib
load_on_lo || exit 1
verbs "$LO" -t silent-peer
