#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
#
# All verbs tests between two hosts.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
verbs "$PEER"
