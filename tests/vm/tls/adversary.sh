#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# pairs: rsiw,*
#
# The peers of wire/adversary, which break every rule of MPA, DDP and RDMAP, within TLS: a part of the tables,
# another one for each SEED, and the same answers. CASES, TIME, PARTS: as there.

. /tests/lib.sh
. /tests/tls/lib

read -ra parts <<<"${PARTS:-}"
export RSIW_TLS=$TLS CASES=${CASES:-20} MOST=${MOST:-20}
mapfile -t results < <(python3 /tests/wire/adversary.py --list "${parts[@]}")
plan $((${#results[@]} + 3))

start() { certificates && own_tlshd; }
run "tlshd starts" start || exit 1
run "load the driver" load_driver tls=3 initiator_wait_ms=0 recv_wait_ms=20 || exit 1
sysctl -q net.ipv4.tcp_max_tw_buckets=64 vm.percpu_pagelist_high_fraction=100000
told_by "peers that break rules within TLS" python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7190 "${parts[@]}"
