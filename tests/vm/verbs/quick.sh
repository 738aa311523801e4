#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# kernel: debug
#
# The quick verbs tests over lo, each in one direction only: for the debug kernel, where
# all tests would take too long.

. /tests/lib.sh
. /tests/verbs/lib
load_on_lo || exit 1
verbs "$LO" -q -x "*/reverse"
