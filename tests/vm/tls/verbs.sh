#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# pairs: rsiw,rsiw
#
# The job verbs/hosts, over TLS.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
. /tests/verbs/hosts.sh
