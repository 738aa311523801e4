#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# kernel: stock
# pairs: rsiw,rsiw
#
# UCX's atomics with rsiw's provider, by its own program. It takes the device's for 8 bytes, and has messages for swap and
# for 4 bytes (ucx_info). Open MPI asks for operations of both sizes, so all of its one-sided ones but Writes and Reads
# are messages; and it asks for fences. UCX's strong one reads a key that it has on devices of mlx5 only.

. /tests/lib.sh
. /tests/rc/lib
need_provider

both_ways() { use_provider && rc_up; }
run "load the provider and the driver, and make both kinds of links on both hosts" \
	both eval ". /tests/rc/lib; $(declare -f both_ways); both_ways" || exit 1
index=$(gid_index "$ADDR")
run "both hosts have the address at the same index" [ "$index" = "$(peer_gid_index "$PEER")" ]
ucx_over "$index"
ucx_info -d -t rc_verbs | grep -E 'atomic_|put_short|am_short' | sed 's/^/# /'
export UCX_ATOMIC_MODE=device
for op in add fadd cswap swap; do
	for size in 8 4; do
		LIMIT=60 run "UCX does $op of $size bytes" ucx_perftest "ucp_$op" -s $size -n 300
	done
done
LIMIT=60 run "UCX sends tagged messages" ucx_perftest tag_bw -s 65536 -n 300
# With ibv_create_ah() UCX tries each GID, and takes one that works.
found_alone() {
	local came
	came=$(counter rx_messages)
	(unset UCX_IB_GID_INDEX && ucx_perftest tag_bw -s 65536 -n 300) || return
	came=$(($(counter rx_messages) - came))
	echo "$came messages"
	[ "$came" -gt 300 ]
}
LIMIT=60 run "UCX finds its GID by itself" found_alone
export UCX_FENCE_MODE=weak
LIMIT=120 run "two MPI ranks write, read and count in each other's memory" \
	mpi_ucx -x UCX_FENCE_MODE python3 /tests/apps/mpi_rma.py
run "no connection is left" wait_for 20 no_connections
