#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 60
# kernel: stock
# pairs: rsiw,*
#
# How often TCP acknowledges short messages, which are read as they come. Rsiw looks at how many come in 8 ms, so only
# a kernel with virtual time will do.

. /tests/lib.sh
plan 4

run "load the driver" load_driver || exit 1
peer_bg server rping -s -P -a 0.0.0.0 -p 7210
server_up 7210
told_by "acknowledgments" python3 /tests/net/acks.py "$ADDR" 7210
