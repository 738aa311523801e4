#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# kernel: debug
# pairs: rsiw,rsiw
#
# The job smb/mount, over TLS.

. /tests/lib.sh
. /tests/tls/lib
all_by_tls
. /tests/smb/mount.sh
