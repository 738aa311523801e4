#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# pairs: rsiw,*
#
# Peers that break every rule, at either end, in thousands of ways: each gets the
# answer that it should, nobody's memory suffers, an honest connection goes on.
# CASES=100000: so many random ones, and all tables in full; TIME: for so many seconds at most;
# SEED: others; PARTS: these groups only.

. /tests/lib.sh

read -ra parts <<<"${PARTS:-}"
mapfile -t results < <(python3 /tests/wire/adversary.py --list "${parts[@]}")
# With the CRC verified before all else.
again=(placement messages)
mapfile -t more < <(python3 /tests/wire/adversary.py --list "${again[@]}")
plan $((${#results[@]} + ${#more[@]} + 4))

# No RTR is repeated for the peers, who do not count on it.
run "load the driver" load_driver initiator_wait=0 recv_wait_ms=20 || exit 1
# Thousands of connections in TIME_WAIT would look like lost memory, and so would what each processor
# keeps of what was given back.
sysctl -q net.ipv4.tcp_max_tw_buckets=64 vm.percpu_pagelist_high_fraction=100000
told_by python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7190 "${parts[@]}"

reloaded() { rdma link del "$DEV" && rmmod rsiw && load_driver initiator_wait=0 verify_first=1; }
run "load the driver with verify_first=1" reloaded || exit 1
VERIFY_FIRST=1 told_by python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7192 "${again[@]}"
