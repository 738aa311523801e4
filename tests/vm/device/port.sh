#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# time: virtual
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: rsiw,rsiw
#
# The port as tools that know InfiniBand see it: Prometheus' node_exporter, counters that grow by
# what was transferred, and MTUs.

. /tests/lib.sh
. /tests/device/lib
. /tests/perftest/lib
. /tests/rc/lib
plan 15

PORT=/sys/class/infiniband/$DEV/ports/1
COUNTERS=(port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets port_rcv_errors)
names() { [ "$(cd "$PORT/counters" && echo *)" = "$(printf '%s\n' "${COUNTERS[@]}" | sort | xargs)" ]; }
read_only() { ! (echo 0 >"$PORT/counters/port_xmit_data") && ! find "$PORT/counters" -type f -perm /222 | grep .; }

# scrape FILE: what node_exporter answers. Numbers of seven digits and more have an exponent.
scrape() {
	local http
	exec {http}<>/dev/tcp/127.0.0.1/9100 &&
		printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$http" &&
		grep -P '^node_\w+' <&"$http" >"$1"
	local status=$?
	exec {http}>&-
	return "$status"
}
# metric FILE DEVICE NAME: a metric of the device's port.
metric() {
	local value
	value=$(grep -oP "^node_infiniband_$3\{device=\"$2\",port=\"1\"\} \K.*" "$1") &&
		printf '%.0f\n' "$value"
}
# measured MARK COMMAND...: calls MARK, which notes counters, then a program of perftest's; both
# again where a known fault of that shows.
measured() {
	local left=3 fault
	until "$1" && within 20 "${@:2}"; do
		left=$((left - 1))
		fault=$(perftest_fault) && [ "$left" -gt 0 ] || return
		retry "$fault" "${*:2}"
	done
}
# with_exporter NAME COMMAND...: a test for which this release has to have node_exporter.
with_exporter() {
	if hash prometheus-node-exporter 2>/dev/null; then
		run "$@"
	else
		skip "$1" "this release has no node_exporter"
	fi
}
exporter() {
	started exporter prometheus-node-exporter --web.listen-address=127.0.0.1:9100 \
		--collector.disable-defaults --collector.infiniband && listens 9100
}
# shows DEVICE: its link is up.
shows() {
	local all=$WORK/scraped
	scrape "$all" || { cat "$WORK/exporter"; return 1; }
	grep "device=\"$1\"" "$all"
	grep -qx 'node_scrape_collector_success{collector="infiniband"} 1' "$all" &&
		[ "$(metric "$all" "$1" state_id)" = 4 ] &&
		[ "$(metric "$all" "$1" physical_state_id)" = 5 ]
}
# same DEVICE FILE: sysfs has the same numbers, of bytes in words of four.
same() {
	local name counter factor shown
	while read -r name counter factor; do
		shown=$(metric "$2" "$1" "${name}_total") || return
		echo "$name: $shown"
		[ "$shown" = $((factor * $(of "$1" "$counter"))) ] || return
	done <<-END
		port_data_transmitted_bytes port_xmit_data 4
		port_data_received_bytes port_rcv_data 4
		port_packets_transmitted port_xmit_packets 1
		port_packets_received port_rcv_packets 1
		port_errors_received port_rcv_errors 1
	END
	# A word at most is not full yet.
	[ $(($(<"/sys/class/infiniband/$1/ports/1/hw_counters/tx_bytes") -
		$(metric "$2" "$1" port_data_transmitted_bytes_total))) -lt 4 ]
}
before() { scrape "$WORK/before"; }
# exported DEVICE COUNT SIZE COMMAND...: the command, a program of perftest's, writes so much both
# ways.
exported() {
	local device=$1 payload=$(($2 * $3)) name by packets
	measured before "${@:4}" ib_write_bw -b -n "$2" -s "$3" || return
	# What was read less than ten milliseconds ago may be shown again.
	nap 0.1
	scrape "$WORK/after" && same "$device" "$WORK/after" || return
	for name in transmitted received; do
		by=$(($(metric "$WORK/after" "$device" "port_data_${name}_bytes_total") -
			$(metric "$WORK/before" "$device" "port_data_${name}_bytes_total")))
		packets=$(($(metric "$WORK/after" "$device" "port_packets_${name}_total") -
			$(metric "$WORK/before" "$device" "port_packets_${name}_total")))
		echo "$name: $by bytes in $packets packets for a payload of $payload"
		[ "$by" -ge "$payload" ] && [ "$by" -le $((payload * 21 / 20)) ] &&
			[ "$packets" -ge "$2" ] || return
	done
}

# Prints a counter of the host with this device.
of() { cat "/sys/class/infiniband/$1/ports/1/counters/$2"; }
there() { peer_sh "$(declare -f of); of $PEER_DEV $1"; }
mark() { of "$DEV" port_xmit_data >"$WORK/sent"; there port_rcv_data >"$WORK/received"; of "$DEV" port_xmit_packets >"$WORK/packets"; }
# grew WHAT NUMBER FILE BYTES: from what is in the file to the number, in words of four bytes, by the payload and at most
# a twentieth more: headers, CRCs, and what the programs tell each other.
grew() {
	local bytes=$((4 * ($2 - $(<"$WORK/$3"))))
	echo "$1: $bytes bytes for a payload of $4"
	[ "$bytes" -ge "$4" ] && [ "$bytes" -le $(($4 * 21 / 20)) ]
}
# moved COUNT SIZE: so many Writes.
moved() {
	local packets
	measured mark perftest_once 1 ib_write_bw -s "$2" -n "$1" || return
	# What was read less than ten milliseconds ago may be shown again.
	nap 0.1
	grew sent "$(of "$DEV" port_xmit_data)" sent $(($1 * $2)) && grew received "$(there port_rcv_data)" received $(($1 * $2)) || return
	packets=$(($(of "$DEV" port_xmit_packets) - $(<"$WORK/packets")))
	echo "$packets packets"
	[ "$packets" -ge "$1" ]
}
by_type() { rdma statistic qp set link "$DEV/1" auto "$@"; }
no_errors() { [ "$(of "$DEV" port_rcv_errors)" = 0 ] && [ "$(there port_rcv_errors)" = 0 ]; }
# The sum of what queue pairs count, which are all closed now.
same_as_hw() {
	nap 0.1
	[ "$(of "$DEV" port_xmit_data)" = $(($(<"$PORT/hw_counters/tx_bytes") / 4)) ] &&
		[ "$(of "$DEV" port_rcv_packets)" = "$(<"$PORT/hw_counters/rx_fpdus")" ]
}
# lo and dummies set no limit to their MTU.
unlimited() {
	ip link add dummy1 type dummy && ip link set dummy1 up && add_device r_dummy dummy1 && add_device r_lo lo || return
	ibv_devinfo -d r_dummy | grep 'max_mtu:\s*4096' && ibv_devinfo -d r_lo | grep 'max_mtu:\s*4096'
}

run "load the driver and make both kinds of links on both hosts" \
	both eval ". /tests/rc/lib; rc_up" || exit 1
run "the port has the counters that mean something for iWARP" names
run "nobody resets the counters" read_only
LIMIT=60 run "the counters of both ports grow by what was transferred" moved 300 65536
run "queue pairs are put into counter sets" by_type type on
LIMIT=60 run "the counters grow by what was transferred in counter sets" moved 2000 4096
run "no more queue pairs are put into counter sets" by_type off
run "what counter sets and closed queue pairs have counted stays" same_as_hw
run "no errors were counted" no_errors
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
with_exporter "Prometheus' node_exporter listens" exporter
with_exporter "node_exporter shows the link" shows "$DEV"
with_exporter "node_exporter shows the link whose queue pairs programs connect" shows rc0
LIMIT=60 with_exporter "node_exporter's values are the port's, and grow by what was transferred" \
	exported "$DEV" 300 65536 perftest_once 1
LIMIT=60 with_exporter "node_exporter's values grow by what queue pairs of the other kind move" \
	exported rc0 300 65536 perf "$gids"
run "a network device without a limit has the largest MTU" unlimited
