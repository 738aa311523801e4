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

# Of all that runs on this host; a sample is a tick of its processor's clock. The program takes long to
# begin, and ends when it is told to.
recorded() { perf record -q -a -e cpu-clock -F 997 -o /tmp/perf.data -- sleep 1000; }
begun() { [ -s /tmp/perf.data ]; }
# shares SORT COUNT: microseconds of this host's processor for each of MOVED MiB; the first COUNT. Not of what
# waits.
shares() {
	perf report -i /tmp/perf.data --stdio --no-children -n -s "$1" -w 9,9,90,60 2>/dev/null |
		sed '/^#/d; /^$/d; /halt\b/d; /swapper/d; s/  */ /g; s/^ //' |
		awk -v rate=997 -v moved="$MOVED" '$3 != "[.]" {
			printf "%8.0f us/MiB  ", $2 / rate * 1000000 / moved; $1 = $2 = ""; print }' |
		head -n "$2"
}
# Threads, in the kernel, a module or a program (perftest's look at their completions all the time), then
# functions of the kernel and of modules.
told() { shares comm,dso 9; shares sym "$TOP"; }
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
	rm -f /tmp/perf.data /tmp/moved
	peer_sh "$(declare -f recorded); rm -f /tmp/perf.data; recorded" &
	recorded &
	wait_for 60 begun && peer_sh "$(declare -f begun); wait_for 60 begun" || return
	read -ra before <<<"$(counters)"
	measured
	local status=$?
	read -ra now <<<"$(counters)"
	echo "packets sent: $((now[0] - before[0])), of $(((now[1] - before[1]) / (now[0] - before[0]))) octets;" \
		"received: $((now[2] - before[2])), of $(((now[3] - before[3]) / (now[2] - before[2])))"
	awk -v tx=$((now[1] - before[1])) -v rx=$((now[3] - before[3])) 'BEGIN { print (tx > rx ? tx : rx) / 1048576 }' >/tmp/moved
	pkill -INT -x perf
	peer_sh "pkill -INT -x perf"
	wait
	return "$status"
}

# shellcheck disable=SC2086 # a driver and its parameters
run "a device of $KIND" both with $KIND || exit 1
LIMIT=$((SECONDS_EACH + 180)) run "$RUN" both_profiled
profiles() {
	local both
	both="$(declare -f shares told); TOP=$TOP MOVED=$(cat /tmp/moved)"
	echo "--- this host, which sends"
	bash -c "$both; told"
	echo "--- the peer"
	peer_sh "$both; told"
}
LIMIT=60 run "the functions" profiles
