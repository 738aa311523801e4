#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# kernel: stock
# pairs: rsiw,rsiw
#
# The job iser/namespace, over TLS.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
. /tests/iser/namespace.sh
