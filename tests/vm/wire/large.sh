#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
# kernel: stock
#
# With large_fpdu=1 FPDUs are longer than a TCP segment, and tshark finds their CRCs good; only one end's
# wish makes none.

. /tests/lib.sh
. /tests/perftest/lib
plan 8

dump=$WORK/dump
# captured: what this host sends and receives meanwhile, decoded.
captured() {
	tcpdump -q -n -U -s 0 -B 32768 -i eth0 -w "$WORK/wire.pcap" 'tcp and port 7190' 2>"$WORK/tcpdump" &
	local tcpdump=$! status=0
	wait_for 10 grep -q 'listening on' "$WORK/tcpdump" || return
	PERFTEST_PORT=7190 perftest 1 "$@" || status=1
	sleep 0.5
	kill -INT "$tcpdump"
	wait "$tcpdump"
	cat "$WORK/tcpdump"
	tshark -n -r "$WORK/wire.pcap" --disable-protocol rpcordma --disable-protocol smb_direct \
		-O iwarp_mpa,iwarp_ddp_rdmap >"$dump" 2>"$WORK/tshark" || return
	return "$status"
}
count() { grep -cE "$1" "$dump"; }
# The lengths of the FPDUs, the largest first.
lengths() { sed -n 's/^ *ULPDU length: \([0-9]*\) bytes.*/\1/p' "$dump" | sort -rn | uniq -c; }
good() {
	echo "$(count '^    FPDU') FPDUs, good CRCs: $(count 'Good CRC32'), bad: $(count 'Bad CRC32'); of so many octets:"
	lengths | head -n 6
	[ "$(count '^    FPDU')" -gt 20 ] && [ "$(count 'Good CRC32')" = "$(count '^    FPDU')" ]
}
largest() { lengths | awk 'NR == 1 { print $2 }'; }
longer() { [ "$(largest)" -gt "$1" ]; }

run "the driver on both hosts, with large FPDUs" both load_driver large_fpdu=1 || exit 1
LIMIT=60 run "Sends of 64 KiB" captured ib_send_bw -F -s 65536 -n 20
run "every FPDU's CRC is good" good
run "they are as long as the standard has them" longer 60000
LIMIT=60 run "Reads of 1 MiB" captured ib_read_bw -F -s 1048576 -n 5
run "every FPDU's CRC is good" good

alone() {
	both eval "rdma link del $DEV && rmmod rsiw" && load_driver && peer_sh load_driver large_fpdu=1 &&
		captured ib_send_bw -F -s 65536 -n 20
}
LIMIT=60 run "only the peer offers them" alone
within_a_segment() { good && ! longer 1448; }
run "they lie in a segment" within_a_segment
