#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# kernel: stock
#
# IPsec below RDMA: ESP in transport mode protects all TCP between the hosts, with keys
# set by hand. A host with IPsec drops packets without it.

. /tests/lib.sh
plan 8

# Each direction has a key.
protect() {
	modprobe -a esp4 xfrm_user || return
	state "$A4" "$B4" 0x101 && state "$B4" "$A4" 0x102 || return
	policy out "$ADDR" "$PEER" && policy in "$PEER" "$ADDR"
}
state() {
	ip xfrm state add src "$1" dst "$2" proto esp spi "$3" mode transport \
		aead 'rfc4106(gcm(aes))' "$(printf '0x%040x' $((0x5eed + $3)))" 128
}
policy() {
	ip xfrm policy add dir "$1" src "$2" dst "$3" proto tcp \
		tmpl src "$2" dst "$3" proto esp mode transport
}
# octets: how many this host has counted through ESP in both directions.
octets() { ip -s xfrm state | awk '/lifetime current/ { getline; sub(/\(.*/, "", $1); n += $1 } END { print n + 0 }'; }
pings() { rping_peer "$PEER" "$1" -C 20 -S 50000 -V; }
went_through() {
	local before
	before=$(octets)
	pings "$1" || return
	echo "$(($(octets) - before)) octets by ESP"
	[ $(($(octets) - before)) -gt $((20 * 2 * 50000)) ]
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
unprotect() { ip xfrm policy flush && ip xfrm state flush; }

run "load the driver on both hosts" both load_driver || exit 1
run "rping connects before IPsec is set up" pings 7601
run "set up IPsec on both hosts" both protect
LIMIT=60 run "all data of rping go through IPsec" went_through 7602
LIMIT=60 run "a host with IPsec refuses one without" refused_without_ipsec 7603
run "remove IPsec from both hosts" both unprotect
LIMIT=60 run "rping connects after IPsec is removed" pings 7604
run "unload the drivers" both unload_driver
