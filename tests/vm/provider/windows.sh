#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 200
#
# The verbs tests of memory windows and of shared receive queues that get another size, which only rsiw's provider has,
# and those of processes that overwrite their own queues, which may bind windows then.

. /tests/lib.sh
. /tests/verbs/lib
need_provider
load_on_lo || exit 1
verbs "$LO" -t 'window*,srq-resize*,hostile-sq,hostile-race' "$@"
