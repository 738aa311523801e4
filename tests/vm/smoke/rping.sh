#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
#
# The first sign of life: connect by either protocol and move checked data.

. /tests/lib.sh
plan 5

run "load the driver on both hosts" both load_driver || exit 1

# ping PORT ANY-ADDRESS PEER-ADDRESS
ping() {
	peer_bg server rping -s -a "$2" -p "$1" -C 20 -v
	server_up "$1" || return
	within "$(limit 8)" rping -c -a "$3" -p "$1" -C 20 -v && return
	peer_kill server
	return 1
}

LIMIT=40 run "rping to the peer, IPv4" patiently ping 7174 0.0.0.0 "$PEER"
run "the server saw all of it" peer_end server 10
LIMIT=40 run "rping to the peer, IPv6" patiently ping 7175 :: "$PEER6"
run "the server saw all of it" peer_end server 10
