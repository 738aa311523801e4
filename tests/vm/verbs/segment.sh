#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# time: virtual
# pairs: rsiw,rsiw
#
# The quick verbs tests with FPDUs that fit into a TCP segment, as other implementations send and want them.
# (wire/large looks at the FPDUs.)

. /tests/lib.sh
. /tests/verbs/lib
both load_driver large_fpdu=0 || exit 1
# The debug kernel is slow, and gets each test in one direction only.
[ "$RSIW_KERNEL" = stock ] || set -- -x "*/reverse"
verbs "$PEER" -q "$@"
