#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# The quick verbs tests over IPv6.

. /tests/lib.sh
. /tests/verbs/lib
both load_driver || exit 1
verbs "$PEER6" -q
