#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 200
# kernel: stock
#
# iSER without the port mapper, so that siw can be at either end: the portal's TCP listener, which LIO always
# makes, is in a network namespace of its own. Where siw is at neither end, a second session uses IPv6.

. /tests/lib.sh
. /tests/iser/lib
over6=0
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" != rsiw,rsiw ] || over6=1
plan $((11 + 7 * over6))

# The initiator may print an IPv6 address with all its zeros.
over_ipv6() { iscsiadm -m session | grep '^iser: \[[0-9]*\] \[fd07:.*\]:3260'; }

run "load the driver on both hosts" both load_driver || exit 1
run "the iSER target listens" on_target "serve_iser $PEER unshare -n" || exit 1
run "start the initiator's daemon" start_initiator
LIMIT=60 run "the iSCSI initiator discovers the target over iSER" patiently discover iser
whole_session

if [ "$over6" = 1 ]; then
	# Used by the functions of tests/iser/lib, as the portal's host.
	# shellcheck disable=SC2153 # set by tests/lib.sh
	PEER="[$PEER6]"
	run "the iSER target listens on IPv6" on_target "serve_iser '$PEER' unshare -n"
	LIMIT=60 run "the iSCSI initiator discovers the target over IPv6" discover iser
	LIMIT=60 run "the iSCSI initiator logs in over IPv6" login iser
	run "the iSCSI session over IPv6 uses iSER" over_ipv6
	LIMIT=60 run "the iSER disk over IPv6 holds data" data 4
	run "the iSCSI initiator logs out over IPv6" logout
	run "the iSER target on IPv6 stops" on_target "stop_iser '$PEER'"
fi
