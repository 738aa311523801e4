#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
# pairs: *rsiw*
# interop: yes
#
# Without CRC, which both ends must agree to: rsiw by its parameter, siw by
# itself. Data is compared by the programs.

. /tests/lib.sh
. /tests/apps/lib
plan 5

# siw has no parameters; what it has by default is no CRC.
load='load_driver $([ "$RSIW_DRIVER" != rsiw ] || echo crc=0)'
both_without() { eval "$load" && peer_sh "$load"; }

verbs() {
	serve verbs 18515 rsiw-verbs server "$PEER" || return
	local gentle=
	[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || gentle=-z
	# shellcheck disable=SC2086 # an option, or none
	rsiw-verbs client $gentle -t 'send*,write,read,inline,list,both-ways,long-1' \
		-x 'send-invalidate*,send-solicited' "$PEER"
}

run "load the driver on both hosts, without CRC" both_without || exit 1
run "rping over IPv4" try_rping "$PEER" 1000 20
run "rping over IPv6" try_rping "$PEER6" 65000 20
LIMIT=40 run "rcopy of 16 MiB" try_rcopy "$PEER" 16
LIMIT=40 run "verbs tests" verbs
