#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 7200
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# kernel: stock
#
# How fast rsiw is, beside siw, siw with its segmentation offload, rxe and TCP: bandwidth by
# size, one way and both ways, latency, rate of short messages, 16 queue pairs (QPS: other numbers), connections; and what
# that costs both hosts. All take turns, ROUNDS times, so that whatever else the machine does meets all. FPDUs of one
# segment, siw with its segmentation offload and two different hosts have a few points only.
# QUICK=1: one round of a few points. KINDS, ONLY (a pattern of points): some of them. A kind is a
# driver with its parameters; "KIND>KIND" one here, where the programs' clients are, and one on the peer;
# "rsiw tls=3" has TLS, "KIND esp" is over IPsec, and "KIND own" has rsiw's provider, for immediate data and atomics.
# MTU: of the link; OFFLOADS=off: each packet is made, checked and received by itself; SYSCTLS: of both hosts.
# Each measurement is a line of bench.tsv (tools/bench makes tables and plots of it). It
# asserts only that everything runs: what to expect of a machine is for people to say.

. /tests/lib.sh
. /tests/perf/lib

: "${QUICK:=}" "${ROUNDS:=$([ -n "$QUICK" ] && echo 1 || echo 3)}" "${ONLY:=*}" \
	"${QPS:=16}" "${MTU:=1500}" "${OFFLOADS:=on}" "${SYSCTLS:=}"
kinds=("tcp" "rsiw" "rsiw crc=0" "rsiw large_fpdu=0" "rsiw crc=0 large_fpdu=0" "siw" "siw-gso" "rxe"
	"rsiw crc=0>siw" "siw>rsiw crc=0" "rsiw own")
sizes=(64 1024 16384 65536 1048576)
read -ra qps <<<"$QPS"
[ -z "$QUICK" ] || { kinds=("tcp" "rsiw" "rsiw crc=0" "siw" "siw-gso"); sizes=(64 65536 1048576); qps=(); }
[ -z "${KINDS:-}" ] || IFS=, read -ra kinds <<<"$KINDS"
if ! has_provider && [[ "${kinds[*]}" = *" own"* ]]; then
	note "$NO_PROVIDER"
	mapfile -t kinds < <(printf '%s\n' "${kinds[@]}" | grep -v ' own$')
fi

# Points: METRIC SIZE QPS, separated by dots.
points_of() {
	local size n sizes=("${sizes[@]}") qps=("${qps[@]}") more=y
	[ -z "$QUICK" ] || more=
	case $1 in
	# Each beside what it is compared with.
	*" own")
		echo "write_bw.65536.1 write_imm_bw.65536.1 read_bw.8.1 fetch_add_bw.8.1 cmp_swap_bw.8.1"
		echo "read_lat.8.1 fetch_add_lat.8.1 cmp_swap_lat.8.1"
		return
		;;
	# What is seen beside a main kind: few points are enough.
	*">"*)
		for n in send write read; do echo "${n}_bw.65536.1"; done
		return
		;;
	*large_fpdu=0* | siw-gso*) [ -n "$QUICK" ] || sizes=(64 65536) qps=() more= ;;
	rxe) sizes=(64 65536) ;;
	esac
	if [ "${1%% *}" = tcp ]; then
		for size in "${sizes[@]}"; do echo "tcp_bw.$size.1"; done
		echo "tcp_lat.2.1"
		for n in "${qps[@]}"; do echo "multi_bw.65536.$n"; done
		[ -z "$more" ] || echo "both_bw.65536.1"
		return
	fi
	for size in "${sizes[@]}"; do
		for n in send write read; do echo "${n}_bw.$size.1"; done
	done
	for n in send write read; do echo "${n}_lat.2.1"; done
	for n in "${qps[@]}"; do echo "multi_bw.65536.$n"; done
	[ -z "$more" ] || echo "both_bw.65536.1 conn_rate.0.32"
}

planned=0
for kind in "${kinds[@]}"; do
	for point in $(points_of "$kind"); do
		# shellcheck disable=SC2053 # a pattern
		[[ $point != $ONLY ]] || planned=$((planned + 1))
	done
done
plan $((planned * ROUNDS))

results=$RSIW_OUT/bench.tsv
printf 'round\tkind\tmetric\tsize\tqps\tvalue\tunit\tdetails\n' >"$results"

both ip link set eth0 mtu "$MTU" || exit 1
offloads() { both ethtool -K eth0 tso "$1" gso "$1" gro "$1" tx "$1" rx "$1" >/dev/null; }
[ "$OFFLOADS" = on ] || offloads off || exit 1
# shellcheck disable=SC2086 # settings
[ -z "$SYSCTLS" ] || both sysctl -w $SYSCTLS || exit 1

without() { rdma link del bench && rmmod "$(module_of "$1")"; }
# each with|without KIND: what it says of this host here, and there what it says of the peer.
each() {
	local kind=${2% esp} pid
	kind=${kind% own}
	local here=${kind%>*} there=${kind#*>}
	peer_sh "$(declare -f); $1 $there" &
	pid=$!
	# shellcheck disable=SC2086 # a driver and its parameters
	"$1" $here && wait "$pid"
}

# What this host did so far: busy and all ticks of its processor, bytes of its link.
state() {
	awk '$1 == "cpu" { b = $2 + $3 + $4 + $7 + $8; print b, b + $5 + $6 }' /proc/stat
	cat /sys/class/net/eth0/statistics/{tx,rx}_bytes
}
states() { state; peer_sh "$(declare -f state); state"; }

# cost METRIC: CPU time of both hosts for each MiB on the link, from the states before and after. Of one way
# the other one's acknowledgements do not count.
cost() {
	paste -sd' ' "$WORK/before" "$WORK/after" | xargs | awk -v metric="$1" -v hz="$(getconf CLK_TCK)" '{
		busy = ($9 - $1) + ($13 - $5)
		tx = $11 - $3
		rx = $12 - $4
		moved = (metric ~ /both_bw/ ? tx + rx : tx > rx ? tx : rx) / 1048576
		if (moved > 0) printf "cpu=%.2fms/MiB load=%.0f%%+%.0f%%", busy * 1000 / hz / moved,
			100 * ($9 - $1) / ($10 - $2), 100 * ($13 - $5) / ($14 - $6) }'
}

# command METRIC SIZE QPS: what measures it; the same on both hosts, but for the address.
command_of() {
	case $1 in
	tcp_bw) echo "qperf -t 2 -m $2 tcp_bw" ;;
	tcp_lat) echo "qperf -t 2 -m $2 tcp_lat" ;;
	# Each connection begins slowly (RFC 5681), and has its turn of so many requests seldom. Many requests
	# are posted before the first completion is looked at; the first quarter of the time does not count.
	multi_bw) echo "ib_write_bw -F -R -d bench -s $2 -q $3 -D $(($3 < 64 ? 6 : 20)) -t 16" ;;
	both_bw) echo "ib_write_bw -b -F -R -d bench -s $2 -D 2" ;;
	write_imm_bw) echo "ib_write_bw --write_with_imm -F -R -d bench -s $2 -D 2" ;;
	fetch_add_bw) echo "ib_atomic_bw -A FETCH_AND_ADD -F -R -d bench -D 2" ;;
	cmp_swap_bw) echo "ib_atomic_bw -A CMP_AND_SWAP -F -R -d bench -D 2" ;;
	fetch_add_lat) echo "ib_atomic_lat -A FETCH_AND_ADD -F -R -d bench -n 4000" ;;
	cmp_swap_lat) echo "ib_atomic_lat -A CMP_AND_SWAP -F -R -d bench -n 4000" ;;
	*_bw) echo "ib_$1 -F -R -d bench -s $2 -D 2" ;;
	*_lat) echo "ib_$1 -F -R -d bench -s $2 -n $([ -n "$QUICK" ] && echo 1500 || echo 4000)" ;;
	esac
}

# connections NUMBER: how many are established in a second, by process after process of NUMBER.
connections() {
	local i
	for ((i = 0; i < 5; i++)); do
		peer_bg server sh -c "ulimit -l unlimited; many server $PEER 7501 $1"
		# What comes then does not count, and with siw may come to no end.
		server_up 7501 && (ulimit -l unlimited; within 8 many client "$PEER" 7501 "$1" 16 </dev/null)
		peer_kill server
	done >"$WORK/measured" 2>&1
	awk -v all="$1" '$1 == "established" && $2 == all && $(NF - 2) > 0 { n++; t += 1 / $(NF - 2) }
		END { if (n < 3) exit 1; printf "%.4g\tconnections/s\t\n", n / t }' "$WORK/measured" ||
		{ cat "$WORK/measured"; return 1; } >&2
}

# streams METRIC SIZE NUMBER: what TCP moves by so many. (Without -O: iperf3 does not get to its end then,
# with 64.)
streams() {
	local status=1 ways=()
	[[ $1 != *both_bw ]] || ways=(--bidir)
	peer_bg server iperf3 -s -1
	server_up 5201 && states >"$WORK/before" &&
		within 30 iperf3 -c "$PEER" -P "$3" -l "$2" -t 6 -J "${ways[@]}" >"$WORK/measured" &&
		states >"$WORK/after" && status=0
	peer_kill server
	[ "$status" = 0 ] || { tail -n 3 "$WORK/measured" >&2; return 1; }
	python3 /tests/perf/read.py iperf3 "$2" "$WORK/measured" "$(cost "$1")"
}

# measure METRIC SIZE QPS: a line "VALUE UNIT DETAILS".
measure() {
	local command try
	case $1 in
	conn_rate) connections "$3"; return ;;
	iperf3-*) streams "$@" || streams "$@"; return ;;
	esac
	command=$(command_of "$@")
	# Several tries, for siw's sake: see patiently in lib.sh.
	for ((try = 1; try <= TRIES; try++)); do
		if [ "$1" = "${1#tcp}" ]; then
			# shellcheck disable=SC2086 # words
			peer_bg server $command
			server_up 18515 || return
			command="$command $PEER"
		else
			peer_bg server qperf
			server_up 19765 || return
			command="qperf $PEER -v ${command#qperf}"
		fi
		states >"$WORK/before"
		# shellcheck disable=SC2086
		if within "$PATIENCE" $command >"$WORK/measured" 2>&1; then
			states >"$WORK/after"
			peer_kill server
			python3 /tests/perf/read.py "$1" "$2" "$WORK/measured" "$(cost "$1")" && return
		fi
		peer_kill server
		command=$(command_of "$@")
		echo "try $try: $(tail -n 2 "$WORK/measured" | paste -sd' ')" >&2
	done
	cat "$WORK/measured" >&2
	return 1
}

# one ROUND KIND POINT
one() {
	local metric size n line program=
	IFS=. read -r metric size n <<<"$3"
	case "$2 $metric" in tcp\ multi_bw | tcp\ both_bw) program=iperf3- ;; esac
	line=$(measure "$program$metric" "$size" "$n") || return
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$metric" "$size" "$n" "$line" >>"$results"
	tr '\t' ' ' <<<"$line"
}

# tried NAME ROUND KIND POINT
TRIES=3 PATIENCE=40
tried() {
	local name=$1
	shift
	if [ "$2" != rxe ]; then
		LIMIT=150 run "$name" one "$@"
	elif [ -n "$stuck" ]; then
		skip "$name" "rxe is stuck since it was asked for $stuck"
	elif tried_rxe "$@"; then
		run "$name" cat "$WORK/one"
	else
		skip "$name" "rxe did not come to an end"
	fi
}
# Its programs may wait in the kernel for ever, for large messages that lost a packet: who waits for them
# does, too, and its device and module stay.
stuck=
tried_rxe() {
	TRIES=1 PATIENCE=15 one "$@" >"$WORK/one" 2>&1 &
	local pid=$!
	if wait_for 30 is_over "$pid"; then
		wait "$pid"
	else
		stuck=$3
		each renamed rxe
		false
	fi
}
is_over() { ! kill -0 "$1"; }
renamed() { rdma dev set bench name stuck; }
# As each, but for what has no device, or keeps it.
device() {
	case $2,$stuck in
	tcp*,* | rxe,?*) ;;
	*) each "$@" ;;
	esac
}

prepare "${kinds[@]}" || exit 1
for ((r = 1; r <= ROUNDS; r++)); do
	for kind in "${kinds[@]}"; do
		beneath up "$kind" || { note "$kind: no IPsec, or no provider"; exit 1; }
		device with "$kind" || { note "$kind: no device"; exit 1; }
		for point in $(points_of "$kind"); do
			# shellcheck disable=SC2053 # a pattern
			[[ $point == $ONLY ]] || continue
			tried "round $r of $ROUNDS, $kind: $point" "$r" "$kind" "$point"
		done
		device without "$kind" || { note "$kind: it stays"; exit 1; }
		beneath down "$kind"
	done
done
[ "$OFFLOADS" = on ] || offloads on
