#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# waits: yes
# timeout: 120
# pairs: rsiw,*
#
# A peer that is connected and then says nothing: the test that only waits, for half a minute.

. /tests/lib.sh
. /tests/verbs/lib
load_on_lo || exit 1
verbs "$LO" -t silent-peer
