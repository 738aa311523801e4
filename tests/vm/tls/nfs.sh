#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# pairs: rsiw,rsiw
#
# The job nfs/versions, over TLS.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
export VERSIONS=4.2
. /tests/nfs/versions.sh
