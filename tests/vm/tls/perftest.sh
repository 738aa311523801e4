#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: rsiw,rsiw
#
# The job smoke/perftest, over TLS.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
. /tests/smoke/perftest.sh
