#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# pairs: rsiw,*
# allow: traps: .* general protection fault ip:
#
# A process writes anything into its rings, with siw's library and with rsiw's own, which has more operations. Another
# process on the same device has an honest connection, which goes on.

. /tests/lib.sh
. /tests/device/lib
if has_provider; then plan 12; else plan 10; fi

hostile() { rsiw-verbs client -s "${RSIW_SEED:-1}" -t 'hostile-*' "$LO"; }
goes_on() { wait_for 20 honest_went_on honest "$(honest_rounds honest)"; }
# attacked LIBRARY
attacked() {
	local before
	peer_bg server rsiw-verbs server "$LO"
	run "start a peer for the attacker with $1" server_up 18515
	before=$(honest_rounds honest)
	LIMIT=100 run "a process with $1 writes anything into its rings" hostile
	run "the honest connection went on during the attack with $1" honest_went_on honest "$before"
	peer_kill server
}

run "load the driver" load_on_lo || exit 1
run "start an honest connection" started honest honest "$LO" 7399
run "the honest connection moves data" wait_for 20 honest_begun honest
attacked libsiw
if has_provider; then
	use_provider || exit 1
	attacked librsiw
else
	skip "a process with librsiw writes anything into its rings" "$NO_PROVIDER"
fi
run "the honest connection goes on after the attack" goes_on
kill -KILL "$(<"$WORK/honest.pid")"
run "no process has an object after the attack" wait_for 20 nothing_left
run "unload the driver" unload_driver
