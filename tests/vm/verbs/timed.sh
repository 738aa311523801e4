#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 120
# pairs: rsiw,*
#
# The verbs tests that judge times or wait for long: receives that come late or not at all, events
# that are put off, and a peer that connects and then says nothing, for half a minute.

. /tests/lib.sh
. /tests/verbs/lib
load_on_lo || exit 1
verbs "$LO" -t 'late-*,moderate*,silent-peer'
