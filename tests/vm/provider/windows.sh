#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 200
#
# The verbs tests of what only rsiw's provider has: memory windows, shared receive queues that get another size, flushes,
# atomic Writes and the order of requests; and those of processes that overwrite their own queues, which may bind windows
# then.

. /tests/lib.sh
. /tests/verbs/lib
need_provider
load_on_lo || exit 1
verbs "$LO" -t 'window*,placement*,turns*,srq-resize*,hostile-sq,hostile-race' "$@"
