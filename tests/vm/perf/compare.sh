#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
#
# How fast rsiw is, by the side of siw: bandwidth and latency of each kind of
# transfer, medians of rounds in which the two take turns, so that whatever else
# the machine does meets both. siw uses no CRCs, so rsiw runs with and without.
# ROUNDS and MEGABYTES (vm-run --env) make it longer. It asserts only that
# everything runs: what to expect of a machine is for people to say.

. /tests/lib.sh

: "${ROUNDS:=5}" "${MEGABYTES:=16}"
[ -e /build/siw.ko ] || skip_all "no siw.ko to compare with (make siw-peer)"
bandwidths=(ib_send_bw ib_write_bw ib_read_bw)
latencies=(ib_send_lat ib_write_lat ib_read_lat)
kinds=("rsiw crc=1" "rsiw crc=0" "siw")
plan $((ROUNDS * ${#kinds[@]}))

# with MODULE [PARAMETER]: a device named bench of it on eth0, on both hosts.
with() {
	RSIW_PARAMS='' load_module "$@" && add_device bench eth0 "$1"
}
without() { rdma link del bench && rmmod "$1"; }

# measure TEST: prints MB/s, or microseconds.
measure() {
	local options column
	case $1 in
	*_bw) options="-s 65536 -n $((MEGABYTES * 16))" column=4 ;;
	*) options="-s 2 -n 3000" column=5 ;;
	esac
	# Several tries, for siw's sake: see patiently in lib.sh.
	for _ in 1 2 3; do
		# shellcheck disable=SC2086 # options are words
		peer_bg server "$1" -F -R $options -d bench
		server_up 18515 || return
		# shellcheck disable=SC2086
		if within 15 "$1" -F -R $options -d bench "$PEER" >"$WORK/measured" 2>&1; then
			peer_end server 5 >/dev/null
			awk -v c="$column" '/^ *(2|65536) +[0-9]+ /{ print $c; found = 1 }
				END { exit !found }' "$WORK/measured" && return
		fi
		peer_kill server
	done
	cat "$WORK/measured" >&2
	return 1
}

results=$WORK/results
round() {
	local module=${1%% *} test value status=0
	# shellcheck disable=SC2086 # a module and its parameter
	{ both with $1; } || return
	for test in "${bandwidths[@]}" "${latencies[@]}"; do
		value=$(measure "$test") || { status=1; break; }
		printf '%s\t%s\t%s\n' "$test" "$1" "$value" >>"$results"
	done
	both without "$module" && return "$status"
}
for ((r = 1; r <= ROUNDS; r++)); do
	for kind in "${kinds[@]}"; do
		LIMIT=120 run "round $r: $kind" round "$kind"
	done
done

median() {
	awk -F '\t' -v t="$1" -v k="$2" '$1 == t && $2 == k { print $3 }' "$results" | sort -g |
		awk '{ v[NR] = $1 } END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b }'; }
note "medians of $ROUNDS rounds; bandwidth of 64 KiB messages in MB/s (more is better), typical"
note "latency of 2 bytes in us (less is better); rsiw with CRCs, without, and siw without"
note "$(printf '%-14s %10s %10s %10s %10s %10s' test rsiw no-crc siw rsiw/siw no-crc/siw)"
for test in "${bandwidths[@]}" "${latencies[@]}"; do
	crc=$(median "$test" "${kinds[0]}") plain=$(median "$test" "${kinds[1]}") siw=$(median "$test" siw)
	note "$(printf '%-14s %10s %10s %10s %10s %10s' "$test" "$crc" "$plain" "$siw" \
		"$(ratio "$crc" "$siw")" "$(ratio "$plain" "$siw")")"
done | tee "$RSIW_OUT/table"
