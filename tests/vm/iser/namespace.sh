#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 200
# kernel: stock
#
# iSER without the port mapper: the portal's TCP listener, which LIO wants in any
# case, is in a network namespace of its own. So siw can be at either end. Without siw, a second
# session goes over IPv6.

. /tests/lib.sh
. /tests/iser/lib
over6=0
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" != rsiw,rsiw ] || over6=1
plan $((11 + 7 * over6))

# An initiator may write out the zeros of an address.
over_ipv6() { iscsiadm -m session | grep '^iser: \[[0-9]*\] \[fd07:.*\]:3260'; }

run "load the driver on both hosts" both load_driver || exit 1
run "the target listens" on_target "serve_iser $PEER unshare -n" || exit 1
run "the initiator's daemon" start_initiator
LIMIT=60 run "discovery" patiently discover iser
whole_session

if [ "$over6" = 1 ]; then
	# Used by the functions of tests/iser/lib, as the portal's host.
	# shellcheck disable=SC2153 # set by tests/lib.sh
	PEER="[$PEER6]"
	run "IPv6: the target listens" on_target "serve_iser '$PEER' unshare -n"
	run "IPv6: discovery" discover iser
	LIMIT=60 run "IPv6: login" login iser
	run "IPv6: it is iSER, to an IPv6 address" over_ipv6
	LIMIT=60 run "IPv6: data" data 4
	run "IPv6: logout" logout
	run "IPv6: the target ends" on_target "stop_iser '$PEER'"
fi
