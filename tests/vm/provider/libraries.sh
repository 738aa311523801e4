#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
# pairs: rsiw,rsiw
#
# Libraries of Debian's packages that ask for more than siw's provider has, with rsiw's: librpma (flushes, atomic Writes,
# immediate data) over the RDMA CM, gloo (Writes with immediate data) without.

. /tests/lib.sh
. /tests/rc/lib
need_provider
for program in rpma gloo; do
	[ -x "/build/bin/$program" ] || skip_all "no program for librpma and gloo: only those of this machine's architecture"
done
plan 6

both_ways() { use_provider && rc_up; }
run "load the provider and the driver, and make both kinds of links on both hosts" \
	both eval ". /tests/rc/lib; $(declare -f both_ways); both_ways" || exit 1
peer_bg rpma rpma server "$PEER" 7204
server_up 7204
LIMIT=60 run "librpma's client writes, flushes and reads" rpma client "$PEER" 7204
run "librpma's server has what was written" peer_end rpma 10

# ranks SIZE: half of them on either host.
ranks() {
	local size=$1 rank pid status=0 pids=()
	rm -rf "$RSIW_OUT/gloo"
	mkdir "$RSIW_OUT/gloo"
	for ((rank = 0; rank < size; rank++)); do
		if ((rank % 2)); then
			peer gloo rc0 "$theirs" "$rank" "$size" "$RSIW_OUT/gloo" &
		else
			gloo rc0 "$own" "$rank" "$size" "$RSIW_OUT/gloo" &
		fi
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid" || status=1; done
	return "$status"
}
own=$(gid_index "$ADDR") theirs=$(peer_gid_index "$PEER")
LIMIT=100 run "two ranks of gloo run its collectives" ranks 2
LIMIT=100 run "four ranks of gloo run its collectives" ranks 4
run "no connection is left" wait_for 20 no_connections
