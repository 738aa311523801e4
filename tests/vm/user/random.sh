#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# pairs: rsiw,*
# allow: traps: .* general protection fault ip:
#
# Processes that call anything with anything, as verbs and RDMA CM or with their system
# calls changed on the way, are killed at any time, and have what others have, too:
# whatever they get for it, nothing of it stays and nobody else notices.
# TIME: seconds of each kind (8); SEED: others.

. /tests/lib.sh
. /tests/device/lib
plan 10

: "${TIME:=$([ "$RSIW_KERNEL" = stock ] && echo 8 || echo 24)}" "${SEED:=$RANDOM}"
export SEED
mangled() { LD_PRELOAD=$(dirname "$(type -P randcalls)")/mangle.so "$@"; }
# With many changes of system calls most others go wrong: some processes have few.
calls() { killed "$TIME" 3 $((TIME * 1000)) randcalls "$ADDR" "$WORK/calls"; }
changed_calls() {
	MANGLE_ONE_IN=4 mangled killed $((TIME / 2)) 3 $((TIME * 250)) randcalls "$ADDR" "$WORK/calls-4" &&
		MANGLE_ONE_IN=50 mangled killed $((TIME / 2)) 3 $((TIME * 500)) randcalls "$ADDR" "$WORK/calls-50" || return
	# Not all of them need be good; but some are.
	randcalls tell "$WORK/calls-50" >"$WORK/told"
	cat "$WORK/told"
	grep -q ': [1-9][0-9]* good' "$WORK/told"
}

# What others do with these programs, in hands that are not steady.
pings() {
	MANGLE_ONE_IN=40 mangled killed "$TIME" 2 4000 rping -s -P -a "$ADDR" -p 7398 &
	MANGLE_ONE_IN=40 mangled killed "$TIME" 2 2000 rping -c -a "$ADDR" -p 7398 -C 100 -V >"$WORK/pings"
	wait $! && tail -n 1 "$WORK/pings"
}
more_rounds() {
	local before
	before=$(tail -n 1 "$WORK/honest")
	wait_for 20 eval "[ \"\$(tail -n 1 $WORK/honest)\" -gt ${before:-0} ]"
	echo "rounds: $before, $(tail -n 1 "$WORK/honest")"
	[ ! -e "$WORK/honest.status" ] && [ "$(tail -n 1 "$WORK/honest")" -gt "${before:-0}" ]
}

run "load the driver" load_driver || exit 1
note "SEED=$SEED"
run "an honest connection" started honest honest "$ADDR" 7399
LIMIT=$((TIME + 60)) run "any calls" calls
# Chance may want more of them. A kernel that is slow gets to some of them too rarely.
each_good() {
	local try most=1
	[ "$RSIW_KERNEL" = stock ] || most=4
	for try in 1 2 3 4 5; do
		! randcalls tell "$WORK/calls" "$most" || return 0
		echo "time $try was too short"
		calls
	done
	randcalls tell "$WORK/calls" "$most"
}
LIMIT=$((5 * TIME + 60)) run "each is good now and then" each_good
LIMIT=$((TIME + 90)) run "calls that are changed on the way" changed_calls
LIMIT=$((TIME + 60)) run "programs whose calls are changed" pings
run "the honest connection goes on" more_rounds
kill -KILL "$(<"$WORK/honest.pid")"
run "it ends" wait_for 10 test -e "$WORK/honest.status"
run "nothing is left" wait_for 20 nothing_left
run "unload the driver" unload_driver
