#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# kernel: stock
# pairs: rsiw,rsiw
#
# rdma-core as it is with the patches for it (tools/rdma-core), and a driver with the driver_id that they give it
# (rsiw-own-id): the library that is installed has no provider for the device, and that one has rsiw's.

. /tests/lib.sh
. /tests/rc/lib
if [ ! -d /build/rdma-core ] || [ ! -e /build/rsiw-own-id.ko ]; then
	skip_all "rdma-core with the patches for it is not built"
fi
plan 8

up() { load_module rsiw-own-id && add_device "$DEV" eth0 && rdma link add rc0 type rsiw_rc netdev eth0; }
run "load a driver with its own driver_id, and make both kinds of links on both hosts" both up || exit 1
# No program of the library that is installed tells that a link is active; sysfs does.
active() { grep -q ACTIVE /sys/class/infiniband/rc0/ports/1/state; }
both wait_for 10 active

library=$(dirname /build/rdma-core/lib*/libibverbs.so.1)
patched=(env "LD_LIBRARY_PATH=$library")
fails "the library that is installed has no provider for the device" ibv_devinfo -d rc0
run "rdma-core with the patches has rsiw's provider for the device" has_all rc0 "${patched[@]}"

gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
# pair PORT PROGRAM OPTION...: a program on both hosts, with the patched library. THEIRS and OURS are options of one.
pair() {
	local port=$1
	shift
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	# shellcheck disable=SC2086 # options
	peer_bg server "${patched[@]}" "$@" $THEIRS
	server_up "$port" || return
	# shellcheck disable=SC2086
	"${patched[@]}" "$@" $OURS && peer_end server 10
}
THEIRS="-g ${gids% *}" OURS="-g ${gids#* } $PEER"
run "ibv_rc_pingpong checks what it has received" pair 18515 ibv_rc_pingpong -d rc0 -c -n 100
THEIRS="-x ${gids% *}" OURS="-x ${gids#* } $PEER"
LIMIT=60 run "ib_atomic_lat adds to the peer's memory" \
	pair 18516 ib_atomic_lat -A FETCH_AND_ADD -d rc0 -F -p 18516 -n 300
LIMIT=60 run "ib_write_bw writes with immediate data" \
	pair 18516 ib_write_bw --write_with_imm -d rc0 -F -p 18516 -s 65536 -n 300
THEIRS=-s OURS=-c
run "rping compares what it moves" pair 7174 rping -a "$PEER" -p 7174 -C 50 -S 4000 -V

# As with provider/, but for what the series changes: two tests pass. One gets as far as a Write that the peer refuses.
because="a Write completes when it is sent: the peer refuses it afterwards, and nothing is written"
grep -E '^because |^test_mr\.' /tests/provider/expected |
	sed -E "/_rereg_(access|atomic) /d; s/(_rereg_access_bad_flow fail) .*/\1 $because/" >"$WORK/expected"
LIMIT=150 run "rdma-core's tests of memory regions end as expected" \
	"${patched[@]}" python3 -B /tests/pyverbs/run.py --tests /build/rdma-core/tests \
	--device rc0 --gid "${gids#* }" --expected "$WORK/expected" --least 5 --limit "$(limit 25)" \
	--traces "$RSIW_OUT/traces" test_mr
