#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
# kernel: stock
#
# Between two hosts with rsiw FPDUs are longer than a TCP segment, and tshark finds their CRCs good. If one end
# has large_fpdu=0, no FPDU is longer. With crc=0 on both ends a program runs without CRCs, and need not know.

. /tests/lib.sh
. /tests/perftest/lib
. /tests/wire/lib
plan 17

# sent NAME PROGRAM OPTION...: three tests, of the transfer, the capture and the CRCs.
sent() {
	local name=$1
	shift
	begin_capture "$WORK/wire.pcap" 'tcp and port 7190'
	PERFTEST_PORT=7190 LIMIT=60 run "perftest moves $name" perftest 1 "$@"
	end_capture "$name"
	LIMIT=60 run "tshark finds the CRCs good of $name" good
}
# The lengths of the FPDUs, the largest first.
lengths() { sed -n 's/^ *ULPDU length: \([0-9]*\) bytes.*/\1/p' "$DUMP" | sort -rn | uniq -c; }
good() {
	decode || return
	echo "$(count '^    FPDU') FPDUs, good CRCs: $(count 'Good CRC32'), bad: $(count 'Bad CRC32'); of so many bytes:"
	lengths | head -n 6
	[ "$(count '^    FPDU')" -gt 20 ] && [ "$(count 'Good CRC32')" = "$(count '^    FPDU')" ]
}
largest() { lengths | awk 'NR == 1 { print $2 }'; }
longer() { [ "$(largest)" -gt "$1" ]; }
# shows_terms PORT CRC LARGE: what rdma shows of a queue pair while it is connected.
shows_terms() {
	local status=0 client
	peer_bg rping rping -s -a "$PEER" -p "$1" -C 1000000
	server_up "$1" || return
	rping -c -a "$PEER" -p "$1" -C 1000000 >"$WORK/rping.client" 2>&1 &
	client=$!
	wait_for 10 shows "drv_crc $2 drv_large_fpdu $3 " || status=1
	rdma -dd resource show qp
	kill "$client"
	wait "$client"
	peer_kill rping
	return "$status"
}
shows() { rdma -dd resource show qp | tee "$WORK/qps"; tr -s '[:space:]' ' ' <"$WORK/qps" | grep -F "$1"; }

run "load the driver on both hosts" both load_driver || exit 1
sent "Sends of 64 KiB" ib_send_bw -F -s 65536 -n 20
run "FPDUs of large Sends are longer than 60000 bytes" longer 60000
sent "Reads of 1 MiB" ib_read_bw -F -s 1048576 -n 5
run "rdma shows that a connection has large FPDUs and CRCs" shows_terms 7191 1 1

alone() {
	both eval "rdma link del $DEV && rmmod rsiw" && load_driver large_fpdu=0 && peer_sh load_driver
}
run "reload the driver with large FPDUs on the peer only" alone
sent "Sends with large FPDUs on one end" ib_send_bw -F -s 65536 -n 20
#= 5044-7.1.1-13
within_a_segment() { ! longer 1448; }
run "FPDUs lie in a segment if one end has no large FPDUs" within_a_segment
run "rdma shows that a connection has no large FPDUs" shows_terms 7192 1 0

reload_without_crc() { both eval "rdma link del $DEV && rmmod rsiw" && both load_driver crc=0; }
run "reload the driver on both hosts, without CRCs" reload_without_crc
#= 5044-4.4-4
without_crc() { shows_terms 7193 0 1; }
run "rdma shows that a connection has no CRCs" without_crc
