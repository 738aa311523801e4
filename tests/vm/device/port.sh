#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 180
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: rsiw,rsiw
#
# The port as tools that know InfiniBand see it: the files that Prometheus' node_exporter reads, counters that grow by
# what was transferred, and MTUs.

. /tests/lib.sh
. /tests/perftest/lib
plan 11

PORT=/sys/class/infiniband/$DEV/ports/1
COUNTERS=(port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets port_rcv_errors)
# matches FILE PATTERN
matches() { printf '%s: ' "$1"; cat "$1" && grep -qxE "$2" "$1"; }
# The files without which node_exporter gives up all devices of a host, in the form in which it takes them apart.
exporter() {
	local file
	matches "$PORT/../../fw_ver" '[0-9.]+' && matches "$PORT/state" '4: ACTIVE' && matches "$PORT/phys_state" '5: LinkUp' &&
		matches "$PORT/rate" '[0-9.]+ Gb/sec \(.*\)' && [ -d "$PORT/counters" ] || return
	for file in "$PORT"/counters/*; do
		matches "$file" '[0-9]+' || return
	done
}
names() { [ "$(cd "$PORT/counters" && echo *)" = "$(printf '%s\n' "${COUNTERS[@]}" | sort | xargs)" ]; }
read_only() { ! (echo 0 >"$PORT/counters/port_xmit_data") && ! find "$PORT/counters" -type f -perm /222 | grep .; }

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
	local left=3 fault packets
	until mark && within 20 perftest_once 1 ib_write_bw -s "$2" -n "$1"; do
		left=$((left - 1))
		fault=$(perftest_fault) && [ "$left" -gt 0 ] || return
		retry "$fault" ib_write_bw
	done
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

run "load the driver on both hosts" both load_driver || exit 1
run "node_exporter finds the files of a port in the form that it knows" exporter
run "the port has the counters that mean something for iWARP" names
run "nobody resets the counters" read_only
LIMIT=60 run "the counters of both ports grow by what was transferred" moved 300 65536
run "queue pairs are put into counter sets" by_type type on
LIMIT=60 run "the counters grow by what was transferred in counter sets" moved 2000 4096
run "no more queue pairs are put into counter sets" by_type off
run "what counter sets and closed queue pairs have counted stays" same_as_hw
run "no errors were counted" no_errors
run "a network device without a limit has the largest MTU" unlimited
