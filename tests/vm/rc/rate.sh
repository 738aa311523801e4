#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# time: virtual
# kernel: stock
# pairs: rsiw,rsiw
#
# Queue pairs that a program connects are as fast as those that the RDMA CM connects: both ends of both kinds are on this
# host, in one program, and take turns, TURNS times (prog/rcrate.c). Time is virtual, so it is the instructions of both
# ends and the kernel, and what they wait for. Bandwidth and latency have a limit of 3 %. Writes of 64 bytes, and Writes
# that are each signalled, are told only: each part, or each of them, waits for a Read that confirms it. With
# RSIW_PARAMS=rc_confirm=0 these take no longer either.

. /tests/lib.sh
. /tests/rc/lib
: "${TURNS:=15}"
: "${POINTS:=write:65536:256:1.03 send:65536:256:1.03 read:65536:256:1.03 ping:2:512:1.03 write:64:2048:- each:65536:256:- each:64:2048:-}"
read -ra points <<<"$POINTS"

# CRCs would take nearly all of the time: this processor has no instructions for them.
up() { RSIW_PARAMS="crc=0 ${RSIW_PARAMS:-}" rc_up; }
run "load the driver and make both kinds of links" up || exit 1
told_by "two pairs" rcrate "$ADDR" "$DEV" rc0 "$(gid_index "$ADDR")" "$TURNS" "${points[@]}"
