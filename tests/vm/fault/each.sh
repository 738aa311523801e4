#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# kernel: debug
# pairs: rsiw,*
# allow: Call Trace:|allocation failed|page allocation failure
#
# Each allocation fails once, in turn, in what a process asks for: devices, objects,
# connections, sending. Of the allocations of a new link, each STRIDEth fails. Nothing may
# leak, hang or be left half made. (kmemleak looks at the end of the session.)

. /tests/lib.sh
. /tests/fault/lib

load_driver || exit 1
only_ours || exit 1
ip link add fault0 type veth peer name fault1 && ip link set fault0 up || exit 1
_planned=by-the-program
failnth "$DEV" "$ADDR" fault0 "${STRIDE:-29}" || _failed=1
ip link delete fault0
