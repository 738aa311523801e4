#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: stock
#
# All verbs tests in one guest, over a device on lo.

. /tests/lib.sh
. /tests/verbs/lib
load_on_lo || exit 1
verbs "$LO"
