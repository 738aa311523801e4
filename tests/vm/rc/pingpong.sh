#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# time: virtual
# timeout: 180
# pairs: rsiw,rsiw
#
# Programs that connect queue pairs by themselves, beside those that use the RDMA CM: those of rdma-core, unmodified.

. /tests/lib.sh
. /tests/rc/lib
. /tests/apps/lib
plan 17

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
shown() {
	ibv_devinfo -v -d rc0 >"$WORK/info" && grep -E 'transport|link_layer|GID\[|max_msg|node_guid' "$WORK/info"
	grep -q 'transport:.*InfiniBand (0)' "$WORK/info" && grep -q 'link_layer:.*Ethernet' "$WORK/info" &&
		grep -q 'GID\[.*::ffff:10.7.0.1, RoCE v2' "$WORK/info"
}
run "programs see InfiniBand on Ethernet, with the host's address as a GID" shown
guids() { [ "$(</sys/class/infiniband/rc0/node_guid)" != "$(<"/sys/class/infiniband/$DEV/node_guid")" ]; }
run "the two devices of a network device have different GUIDs" guids
fails "a second link of the kind on the network device is refused" rdma link add rc9 type rsiw_rc netdev eth0

four="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
six="$(peer_gid_index "$PEER6") $(gid_index "$ADDR6")"
note "indices of GIDs: IPv4 $four, IPv6 $six"
run "ibv_rc_pingpong runs over IPv4" pingpong ibv_rc_pingpong "$PEER" "$four" -n 200
run "ibv_rc_pingpong runs with events" pingpong ibv_rc_pingpong "$PEER" "$four" -e -n 200
run "ibv_rc_pingpong moves 1 MiB" pingpong ibv_rc_pingpong "$PEER" "$four" -s 1048576 -n 20
run "ibv_rc_pingpong checks what it has received" pingpong ibv_rc_pingpong "$PEER" "$four" -c -n 100
run "ibv_rc_pingpong runs over IPv6" pingpong ibv_rc_pingpong "$PEER" "$six" -n 200
run "ibv_rc_pingpong runs over link-local addresses" pingpong ibv_rc_pingpong "$PEER" "0 0" -n 200
run "ibv_srq_pingpong connects 16 queue pairs" pingpong ibv_srq_pingpong "$PEER" "$four" -q 16 -n 200
run "ibv_uc_pingpong runs" pingpong ibv_uc_pingpong "$PEER" "$four" -n 200
swapped() {
	ibv_rc_pingpong -d rc0 -g "${four#* }" -n 200 -p 18517 >"$WORK/here" 2>&1 &
	listens 18517 || return
	peer ibv_rc_pingpong -d rc0 -g "${four% *}" -n 200 -p 18517 "$ADDR" || { cat "$WORK/here"; return 1; }
	wait $!
}
run "ibv_rc_pingpong runs with the roles swapped" swapped
both_links() {
	local pid
	pingpong ibv_rc_pingpong "$PEER" "$four" -n 200 &
	pid=$!
	try_rping "$PEER" 4000 50 && wait "$pid"
}
run "both kinds of links carry data side by side" both_links
itself() {
	ibv_rc_pingpong -d rc0 -g "${four#* }" -n 200 -p 18518 >"$WORK/here" 2>&1 &
	listens 18518 || return
	ibv_rc_pingpong -d rc0 -g "${four#* }" -n 200 -p 18518 "$ADDR" || { cat "$WORK/here"; return 1; }
	wait $!
}
run "two queue pairs of one device reach each other" itself
run "no connection is left" wait_for 20 no_connections
closed() { ! ss -Hltn "sport = :4791" | grep .; }
run "no port is open when no queue pair waits" closed
