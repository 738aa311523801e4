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
. /tests/perf/lib
plan 3

: "${KIND:=rsiw crc=0}" "${TOP:=40}" "${SECONDS_EACH:=6}"
case $KIND in
tcp) : "${RUN:=qperf -t $SECONDS_EACH -m 65536}" ;;
*) : "${RUN:=ib_write_bw -F -R -d bench -s 65536 -D $SECONDS_EACH}" ;;
esac

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
counters() { (cd /sys/class/net/eth0/statistics && cat tx_packets tx_bytes rx_packets rx_bytes) | tr '\n' ' '; }
both_profiled() {
	local before now
	rm -f /tmp/moved
	profile_begin || return
	read -ra before <<<"$(counters)"
	measured
	local status=$?
	read -ra now <<<"$(counters)"
	echo "packets sent: $((now[0] - before[0])), of $(((now[1] - before[1]) / (now[0] - before[0]))) bytes;" \
		"received: $((now[2] - before[2])), of $(((now[3] - before[3]) / (now[2] - before[2])))"
	awk -v tx=$((now[1] - before[1])) -v rx=$((now[3] - before[3])) 'BEGIN { print (tx > rx ? tx : rx) / 1048576 }' >/tmp/moved
	profile_end
	return "$status"
}

# shellcheck disable=SC2086 # a driver and its parameters
run "a device of $KIND" both with $KIND || exit 1
LIMIT=$((SECONDS_EACH + 180)) run "$RUN" both_profiled
profiles() { profile_show "$(cat /tmp/moved)" 9 "$TOP"; }
LIMIT=60 run "the functions" profiles
