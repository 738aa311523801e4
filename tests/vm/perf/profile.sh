#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 600
# kernel: stock
#
# Where both hosts' time goes while something is measured: the functions that have most of it.
# KIND: the driver and its parameters, or tcp; RUN: the command, to which the server's address is
# added at the client; SECONDS_EACH: of the command; TOP: how many functions.

. /tests/lib.sh
plan 3

: "${KIND:=rsiw crc=0}" "${TOP:=40}" "${SECONDS_EACH:=6}"
case $KIND in
tcp) : "${RUN:=qperf -t $SECONDS_EACH -m 65536}" ;;
*) : "${RUN:=ib_write_bw -F -R -d bench -s 65536 -D $SECONDS_EACH}" ;;
esac

with() {
	[ "$1" != tcp ] || return 0
	RSIW_PARAMS='' load_module "$@" && add_device bench eth0 "$1"
}
# Of all that runs on this host; a sample is a tick of its processor's clock.
recorded() { perf record -q -a -e cpu-clock -F 997 -o "$WORK/perf.data" -- sleep "$1" 2>&1; }
told() {
	perf report -i "$WORK/perf.data" --stdio --no-children -s sym,dso 2>/dev/null |
		grep -v '^#\|^$' | head -n "$TOP"
}
measured() {
	# shellcheck disable=SC2086 # words
	if [ "$KIND" = tcp ]; then
		peer_bg server qperf && server_up 19765 &&
			within $((SECONDS_EACH + 20)) ${RUN/qperf/qperf $PEER} tcp_bw
	else
		peer_bg server $RUN && server_up 18515 && within $((SECONDS_EACH + 20)) $RUN "$PEER"
	fi
	peer_kill server
}
both_profiled() {
	local seconds=$((SECONDS_EACH / 2))
	measured &
	# Not of what comes before and after it.
	sleep $((SECONDS_EACH / 4 + 2))
	peer_sh "$(declare -f recorded); WORK=$WORK recorded $seconds" &
	recorded "$seconds"
	wait
}

# shellcheck disable=SC2086 # a driver and its parameters
run "a device of $KIND" both with $KIND || exit 1
LIMIT=$((SECONDS_EACH + 60)) run "$RUN" both_profiled
profiles() {
	echo "--- this host, which sends"
	told
	echo "--- the peer"
	peer_sh "$(declare -f told); WORK=$WORK TOP=$TOP told"
}
LIMIT=60 run "the functions" profiles
