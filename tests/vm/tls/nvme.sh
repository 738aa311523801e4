#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# allow: nvme nvme\d: (failed to|Reconnecting|I/O tag)
# pairs: rsiw,rsiw
#
# The job nvme/target, over TLS.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
. /tests/nvme/target.sh
