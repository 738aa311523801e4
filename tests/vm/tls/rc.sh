#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# pairs: rsiw,rsiw
#
# Queue pairs that programs connect by themselves, over TLS; and peers without it, or with another authority's
# certificate, who get no data whichever end calls.

. /tests/lib.sh
. /tests/tls/lib
. /tests/rc/lib
. /tests/device/lib

# policy POLICY: of this host's link. Host A has the lower address, and calls.
policy() { echo "$1" >/sys/class/infiniband/rc0/settings/tls; }
peer_policy() { peer sh -c "echo $1 >/sys/class/infiniband/rc0/settings/tls"; }
# by_tls COMMAND...: the command succeeds, and this host has new streams with TLS.
by_tls() {
	local before
	before=$(tls_streams)
	"$@" || return
	echo "streams with TLS: ${before:=0} before, $(tls_streams) now"
	[ "$(tls_streams)" -gt "$before" ]
}
# nothing_moves: the client's first request fails, in time, and no message has come from the peer.
nothing_moves() {
	local before
	before=$(counter rx_messages)
	! pingpong ibv_rc_pingpong "$PEER" "$gids" -n 10 || return
	peer_kill ibv_rc_pingpong
	[ "$(counter rx_messages)" = "$before" ]
}
run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
run "both links require TLS" eval "policy 3 && peer_policy 3"
run "ibv_rc_pingpong checks what it has received over TLS" by_tls pingpong ibv_rc_pingpong "$PEER" "$gids" -c -n 100
run "ibv_rc_pingpong moves 1 MiB over TLS" by_tls pingpong ibv_rc_pingpong "$PEER" "$gids" -s 1048576 -n 10
run "ibv_srq_pingpong connects 2 queue pairs over TLS" by_tls pingpong ibv_srq_pingpong "$PEER" "$gids" -q 2 -n 100
LIMIT=60 run "ib_write_bw writes over TLS, both ways" by_tls perf "$gids" ib_write_bw -s 65536 -n 100 -b
LIMIT=60 run "ib_read_bw reads over TLS" by_tls perf "$gids" ib_read_bw -s 65536 -n 100
LIMIT=90 run "64 queue pairs are connected over TLS at a time" by_tls mesh "$gids" 64 0

peer_policy 0
LIMIT=60 run "a peer without TLS that is called is refused" nothing_moves
policy 0
peer_policy 3
LIMIT=60 run "a peer without TLS that calls is refused" nothing_moves
policy 3
run "the link works when both have TLS again" by_tls pingpong ibv_rc_pingpong "$PEER" "$gids" -c -n 100

other_authority() { authority other && certificate stranger other "DNS:hosta,IP:$A4" && tlshd_with stranger; }
run "this host gets another authority's certificate" other_authority
LIMIT=60 run "a peer with another authority's certificate is refused" nothing_moves
run "this host gets its own certificate back" own_tlshd
run "the link works with it" by_tls pingpong ibv_rc_pingpong "$PEER" "$gids" -c -n 100
own_library
. /tests/rc/notready
before=$(tls_streams)
not_ready
more_tls() { [ "$(tls_streams)" -ge $((before + 4)) ]; }
run "the Sends without a receive went over TLS" more_tls
end_pair
run "no connection is left" wait_for 20 no_connections
