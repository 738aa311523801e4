#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: stock
#
# Verbs tests in one guest, over a device on lo: the quick ones, in one direction only, as verbs/hosts
# runs all of them, and but for those that judge times (verbs/timed). ALL: all here, too.

. /tests/lib.sh
. /tests/verbs/lib
load_on_lo || exit 1
[ -n "${ALL:-}" ] || set -- -q -x "*/reverse,moderate*"
verbs "$LO" "$@"
