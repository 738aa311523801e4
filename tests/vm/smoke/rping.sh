#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
#
# The first sign of life: rping connects over IPv4 and IPv6 and moves data that it compares.

. /tests/lib.sh
plan 5

run "load the driver on both hosts" both load_driver || exit 1

# pings PORT LISTEN-ADDRESS ADDRESS: what it starts may be tried again, beside siw.
pings() {
	peer_bg server rping -s -a "$2" -p "$1" -C 20 -v
	server_up "$1" || return
	within 30 rping -c -a "$3" -p "$1" -C 20 -v && return
	peer_kill server
	return 1
}

LIMIT=130 run "rping connects to the peer over IPv4" patiently pings 7174 0.0.0.0 "$PEER"
run "the rping server over IPv4 ends well" peer_end server 10
LIMIT=130 run "rping connects to the peer over IPv6" patiently pings 7175 :: "$PEER6"
run "the rping server over IPv6 ends well" peer_end server 10
