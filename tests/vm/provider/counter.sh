#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: stock
# pairs: rsiw,*
#
# A counter, and a lock, which atomics of queue pairs and of a local thread change at once, on two
# processors.

. /tests/lib.sh
. /tests/rc/lib
need_provider

run "load the driver and make both kinds of links" rc_up || exit 1
told_by "a counter with many writers" \
	rccount rc0 "$(gid_index "$ADDR")" "${QUEUE_PAIRS:-8}" "${ROUNDS:-500}"
