#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 200
# pairs: rsiw,*
# allow: traps: .* general protection fault ip:
#
# A process that writes anything into its rings, and another one beside, on the same device:
# what the first does is its own affair.

. /tests/lib.sh
. /tests/device/lib
plan 9

hostile() { rsiw-verbs client -s "${RSIW_SEED:-1}" -t 'hostile-*' "$LO"; }
rounds() { tail -n 1 "$WORK/honest"; }
begun() { [[ $(rounds) =~ ^[0-9]+$ ]]; }
# It has more rounds than before the attack, which it has been through, and lives.
went_on() {
	echo "rounds: $1 before, $(rounds) now"
	[ ! -e "$WORK/honest.status" ] && [ "$(rounds)" -gt "$1" ]
}
goes_on() { wait_for 20 went_on "$(rounds)"; }

run "load the driver" load_on_lo || exit 1
run "an honest connection" started honest honest "$LO" 7399
run "is busy" wait_for 20 begun
peer_bg server rsiw-verbs server "$LO"
run "a peer for the attacker" server_up 18515
before=$(rounds)
LIMIT=100 run "rings are scribbled upon" hostile
run "the honest connection went on meanwhile" went_on "$before"
run "and goes on" goes_on
peer_kill server
kill -KILL "$(<"$WORK/honest.pid")"
run "nothing is left" wait_for 20 nothing_left
run "unload the driver" unload_driver
