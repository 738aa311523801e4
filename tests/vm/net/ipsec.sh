#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# kernel: stock
#
# IPsec below RDMA: ESP in transport mode protects all TCP between the hosts, with keys
# set by hand. A host with IPsec drops packets without it.

. /tests/lib.sh
. /tests/net/lib
plan 8

# bytes: how many this host has counted through ESP in both directions.
bytes() { ip -s xfrm state | awk '/lifetime current/ { getline; sub(/\(.*/, "", $1); n += $1 } END { print n + 0 }'; }
pings() { rping_peer "$PEER" "$1" -C 20 -S 50000 -V; }
went_through() {
	local before
	before=$(bytes)
	pings "$1" || return
	echo "$(($(bytes) - before)) bytes by ESP"
	[ $(($(bytes) - before)) -gt $((20 * 2 * 50000)) ]
}
# This host has no IPsec any more; the peer has.
refused_without_ipsec() {
	local status
	unprotect || return
	peer_bg server rping -s -a "$PEER" -p "$1" -C 1
	server_up "$1" || return
	within 8 rping -c -a "$PEER" -p "$1" -C 1
	status=$?
	peer_kill server
	[ "$status" != 0 ]
}

run "load the driver on both hosts" both load_driver || exit 1
run "rping connects before IPsec is set up" pings 7601
run "set up IPsec on both hosts" both protect
LIMIT=60 run "all data of rping go through IPsec" went_through 7602
LIMIT=60 run "a host with IPsec refuses one without" refused_without_ipsec 7603
run "remove IPsec from both hosts" both unprotect
LIMIT=60 run "rping connects after IPsec is removed" pings 7604
run "unload the drivers" both unload_driver
