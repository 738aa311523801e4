#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# pairs: rsiw,rsiw
#
# The quick tests of the job verbs/hosts, over TLS; ALL: all of them.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
[ -n "${ALL:-}" ] || set -- -q -x "silent-peer,*/reverse,connections-100"
. /tests/verbs/hosts.sh
