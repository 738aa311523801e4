#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
# pairs: rsiw,rsiw
#
# Unmodified programs with rsiw's provider: immediate data and atomics by perftest, over the RDMA CM and without, and
# others that work as before. Then one end has siw's provider, and at last both.

. /tests/lib.sh
. /tests/rc/lib
. /tests/apps/lib
need_provider
plan 24

both_ways() { use_provider && load_driver && rc_add rc0 eth0; }
run "load the provider and the driver, and make both kinds of links on both hosts" \
	both eval ". /tests/rc/lib; $(declare -f both_ways); both_ways" || exit 1
run "the library that is loaded is rsiw's" provider_is yes ibv_devinfo -d "$DEV"
run "the device tells that it has atomics and time stamps" has_all rc0

gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
# by_cm PROGRAM OPTION...: perf of rc/lib, but over the RDMA CM.
by_cm() {
	local program=$1
	shift
	[ ! -e "$WORK/$program.pid" ] || peer_kill "$program"
	peer_bg "$program" "$program" -d "$PEER_DEV" -R -F -p 18517 "$@"
	server_up 18517 || return
	"$program" -d "$DEV" -R -F -p 18517 "$@" "$PEER" >"$WORK/client" 2>&1 || {
		cat "$WORK/client" "$WORK/$program"
		return 1
	}
	grep -E '^ *[0-9]+ +[0-9]+ ' "$WORK/client"
	peer_end "$program" 10 >/dev/null || { cat "$WORK/$program"; return 1; }
}
LIMIT=60 run "ib_write_bw writes with immediate data, over the RDMA CM" by_cm ib_write_bw --write_with_imm -s 65536 -n 300
LIMIT=60 run "ib_write_bw writes with immediate data" perf "$gids" ib_write_bw --write_with_imm -s 65536 -n 300
for op in FETCH_AND_ADD CMP_AND_SWAP; do
	LIMIT=60 run "ib_atomic_bw does $op over the RDMA CM" by_cm ib_atomic_bw -A "$op" -n 500
	LIMIT=60 run "ib_atomic_lat does $op over the RDMA CM" by_cm ib_atomic_lat -A "$op" -n 300
	LIMIT=60 run "ib_atomic_bw does $op" perf "$gids" ib_atomic_bw -A "$op" -n 500
	LIMIT=60 run "ib_atomic_lat does $op" perf "$gids" ib_atomic_lat -A "$op" -n 300
done
run "rping compares what it moves" try_rping "$PEER" 4000 50
run "ibv_rc_pingpong checks what it has received" pingpong ibv_rc_pingpong "$PEER" "$gids" -c -n 100
run "ibv_srq_pingpong runs with events" pingpong ibv_srq_pingpong "$PEER" "$gids" -e -n 100

run "the peer goes back to siw's library" peer_sh without_provider
run "rping runs with siw's library at the other end" try_rping "$PEER" 4000 50
without_provider
run "the library that is loaded is siw's again" provider_is no ibv_devinfo -d "$DEV"
run "rping compares what it moves, with siw's library at both ends" try_rping "$PEER" 4000 50
run "ibv_rc_pingpong checks what it has received" pingpong ibv_rc_pingpong "$PEER" "$gids" -c -n 100
LIMIT=60 run "ib_write_bw writes, over the RDMA CM" by_cm ib_write_bw -s 65536 -n 300
LIMIT=60 run "ib_read_bw reads" perf "$gids" ib_read_bw -s 65536 -n 300
by_name() {
	local own
	own=$(own_provider)
	! has_all rc0 && RDMAV_DRIVERS=${own%-rdmav*} has_all rc0
}
run "a program that names rsiw's library has it" by_name
