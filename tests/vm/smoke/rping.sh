#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# interop: yes
#
# The first sign of life: connect by either protocol and move checked data.

. /tests/lib.sh
plan 5

run "load the driver on both hosts" both load_driver || exit 1

# siw as the responder misses a first FPDU that comes while it still sets up
# its socket (siw_accept), and then waits for ever: worth another try.
tries=1
[ "$RSIW_DRIVER_PEER" != siw ] || tries=4

# ping PORT ANY-ADDRESS PEER-ADDRESS
ping() {
	local try
	for ((try = 1; try <= tries; try++)); do
		peer_bg server rping -s -a "$2" -p "$1" -C 20 -v
		server_up "$1" || return
		within "$(limit 8)" rping -c -a "$3" -p "$1" -C 20 -v && return
		peer_kill server
	done
	return 1
}

LIMIT=40 run "rping to the peer, IPv4" ping 7174 0.0.0.0 "$PEER"
run "the server saw all of it" peer_end server 10
LIMIT=40 run "rping to the peer, IPv6" ping 7175 :: "$PEER6"
run "the server saw all of it" peer_end server 10
