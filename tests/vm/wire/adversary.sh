#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# pairs: rsiw,*
#
# Peers at either end break every rule in thousands of ways. Each gets the answer that
# the rules ask for, no memory is overwritten, and an honest connection goes on.
# CASES=100000: so many random cases, and all tables in full. TIME: for so many seconds at
# most. MOST: at most so many cases of a table. SPLICES: each case of spliced so many times. SEED: other cases.
# PARTS: only these groups (adversary.py --list has their names), without the further runs. EXTENDED=1: the victim has
# provider/ in all of them, and knows the messages of RFC 7306.
#= 5040-6.1-5, 5041-5.4-1c, 5044-6-1

. /tests/lib.sh

[ -z "${EXTENDED:-}" ] || need_provider
read -ra parts <<<"${PARTS:-}"
# These groups run again with verify_first=1, and one with a victim that has provider/ if the others' has not.
again=(placement messages spliced) extended=(extensions)
[ -z "${EXTENDED:-}" ] || extended=()
runs=("${parts[@]}") own=2
[ ${#parts[@]} != 0 ] || runs+=(-- "${again[@]}") own=4
if [ ${#parts[@]} = 0 ] && [ ${#extended[@]} != 0 ]; then
	own=5
	! has_provider || runs+=(-- "${extended[@]}")
fi
plan $(($(python3 /tests/wire/adversary.py --list "${runs[@]}" | wc -l) + own))

# initiator_wait_ms=0: the driver repeats no RTR, which these peers do not expect.
run "load the driver" load_driver initiator_wait_ms=0 recv_wait_ms=20 || exit 1
# Without these, thousands of connections in TIME_WAIT, and free pages in the lists of each processor, would
# look like lost memory.
sysctl -q net.ipv4.tcp_max_tw_buckets=64 vm.percpu_pagelist_high_fraction=100000
told_by "peers that break rules" python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7190 "${parts[@]}"

[ ${#parts[@]} = 0 ] || exit 0
reloaded() { rdma link del "$DEV" && rmmod rsiw && load_driver initiator_wait_ms=0 verify_first=1; }
run "load the driver with verify_first=1" reloaded || exit 1
VERIFY_FIRST=1 told_by "peers that break rules, verify_first=1" python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7192 "${again[@]}"

[ ${#extended[@]} != 0 ] || exit 0
if ! has_provider; then
	skip "a victim that knows RFC 7306" "$NO_PROVIDER"
	exit 0
fi
use_provider || exit 1
EXTENDED=1 VERIFY_FIRST=1 told_by "peers of a victim that knows RFC 7306" python3 /tests/wire/adversary.py "$DEV" "$ADDR" \
	7194 "${extended[@]}"
