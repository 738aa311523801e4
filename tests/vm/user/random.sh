#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# pairs: rsiw,*
# allow: traps: .* general protection fault ip:
#
# Processes make random calls of verbs and of the RDMA CM, or have their system calls
# changed on the way, and are killed at any time. Whatever comes of the calls, nothing
# of it stays, and an honest connection goes on. TIME: seconds of each kind (8). SEED:
# other calls.

. /tests/lib.sh
. /tests/device/lib
plan 10

: "${TIME:=$([ "$RSIW_KERNEL" = stock ] && echo 8 || echo 24)}" "${SEED:=1}"
export SEED
mangled() { LD_PRELOAD=$(dirname "$(type -P randcalls)")/mangle.so "$@"; }
# Where many system calls are changed, most of the others fail. So some processes have few changes.
calls() { killed "$TIME" 3 $((TIME * 1000)) randcalls "$ADDR" "$WORK/calls"; }
changed_calls() {
	MANGLE_ONE_IN=4 mangled killed $((TIME / 2)) 3 $((TIME * 250)) randcalls "$ADDR" "$WORK/calls-4" &&
		MANGLE_ONE_IN=50 mangled killed $((TIME / 2)) 3 $((TIME * 500)) randcalls "$ADDR" "$WORK/calls-50" || return
	# Some of these calls have to succeed.
	randcalls tell "$WORK/calls-50" >"$WORK/told"
	cat "$WORK/told"
	grep -q ': [1-9][0-9]* good' "$WORK/told"
}

# rping, with some system calls changed.
mangled_rping() {
	MANGLE_ONE_IN=40 mangled killed "$TIME" 2 4000 rping -s -P -a "$ADDR" -p 7398 &
	MANGLE_ONE_IN=40 mangled killed "$TIME" 2 2000 rping -c -a "$ADDR" -p 7398 -C 100 -V >"$WORK/pings"
	wait $! && tail -n 1 "$WORK/pings"
}
more_rounds() {
	local before
	before=$(honest_rounds honest)
	wait_for 20 honest_went_on honest "${before:-0}" || honest_went_on honest "${before:-0}"
}

run "load the driver" load_driver || exit 1
note "SEED=$SEED"
run "start an honest connection" started honest honest "$ADDR" 7399
LIMIT=$((TIME + 60)) run "processes make random calls" calls
# By chance some may need more calls. On a slow kernel some are made too rarely, and need not all succeed.
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
LIMIT=$((5 * TIME + 60)) run "each call succeeds now and then" each_good
LIMIT=$((TIME + 90)) run "processes make calls that are changed on the way" changed_calls
LIMIT=$((TIME + 60)) run "rping runs with changed system calls" mangled_rping
run "the honest connection goes on after all calls" more_rounds
kill -KILL "$(<"$WORK/honest.pid")"
run "the honest connection ends when killed" wait_for 10 test -e "$WORK/honest.status"
run "no process has an object after all calls" wait_for 20 nothing_left
run "unload the driver" unload_driver
