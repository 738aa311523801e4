#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# pairs: rsiw,rsiw
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# What goes over the wire is iWARP to somebody else: tshark decodes it and checks
# the CRCs, and each TCP segment holds whole FPDUs.

. /tests/lib.sh
. /tests/perftest/lib
. /tests/wire/lib
plan 16

# Each packet as it goes over the wire: neither cut by the device below the
# capture nor put together before it.
offloads() { both ethtool -K eth0 tso "$1" gso "$1" gro "$1" >/dev/null; }
offloads off
trap 'offloads on; _at_exit' EXIT

run "load the driver on both hosts" both load_driver || exit 1

tests='tcp and portrange 7174-7190'
begin "$WORK/short.pcap" "$tests"
PERFTEST_PORT=7190 LIMIT=60 run "short messages" perftest 1 ib_write_bw -F -s 64 -n 5000
end
run "each lies in one TCP segment, often with others" \
	python3 -B /tests/wire/pcap.py gathered "$CAPTURE" || cp "$CAPTURE" "$RSIW_OUT/"

begin "$WORK/wire.pcap" "$tests"

ping() {
	peer_bg server rping -s -C 20
	server_up 7174 && rping -c -a "$PEER" -C 20 && peer_end server 10
}
run "rping" ping
port=7180
for test in ib_send_bw ib_write_bw ib_read_bw; do
	PERFTEST_PORT=$port LIMIT=60 run "$test" perftest 1 "$test" -F -s 65536 -n 10
	port=$((port + 1))
done
end

LIMIT=90 run "tshark reads it" decode || exit 1

# Not those of TCP, for which losses are a part of life; and it knows MPA only
# as of RFC 5044, not the revision 2 of RFC 6581.
complaints() {
	sed -n '/^Errors\|^Warns/,$p' "$DUMP" |
		grep -E '^ +[0-9]+ +[A-Z]' | grep -vE ' TCP +[A-Z]| (Res|Rev) field is NOT set to'
	grep -iE 'malformed|Bad length|Dissector bug|Reassembly error' "$DUMP"
}
no_complaints() { ! complaints; }
run "it has nothing to complain of" no_complaints

setup() {
	local requests replies
	requests=$(count '^    Request frame header') replies=$(count '^    Reply frame header')
	echo "$requests requests, $replies replies, CRCs in $(count '= CRC flag: True')," \
		"markers in $(count '= Marker flag: True')"
	# rping has one connection; each perftest two, of which one is for figures.
	[ "$requests" -ge 7 ] && [ "$replies" = "$requests" ] &&
		[ "$(count '= CRC flag: True')" = $((requests * 2)) ] &&
		[ "$(count '= Marker flag: False')" = $((requests * 2)) ]
}
run "connection setup is recognised, with CRCs and without markers" setup
fpdus() {
	echo "$(count '^    FPDU') FPDUs, good CRCs: $(count 'Good CRC32'), bad: $(count 'Bad CRC32')"
	# 2 MB in at most 1448 bytes each.
	[ "$(count '^    FPDU')" -gt 1300 ] && [ "$(count 'Bad CRC32')" = 0 ] &&
		[ "$(count 'Good CRC32')" = "$(count '^    FPDU')" ]
}
run "every FPDU's CRC is good" fpdus
messages() {
	local kind
	for kind in Write 'Read Request' 'Read Response' Send; do
		echo "$kind: $(count "OpCode: $kind \\(")"
		[ "$(count "OpCode: $kind \\(")" -ge 20 ] || return
	done
	[ "$(count 'OpCode: Terminate')" = 0 ]
}
run "each kind of message is among them, and no Terminate" messages

# The proof that it would have noticed: one bit of one FPDU's data differs.
wrong() {
	python3 -B /tests/wire/pcap.py flip "$CAPTURE" "$WORK/wrong.pcap" &&
		decode "$WORK/wrong.pcap" "$WORK/wrong" && [ "$(grep -c 'Bad CRC32' "$WORK/wrong")" = 1 ]
}
LIMIT=90 run "with a bit changed, tshark finds one bad CRC" wrong
run "nine of ten TCP segments hold whole FPDUs" python3 -B /tests/wire/pcap.py align "$CAPTURE" ||
	cp "$CAPTURE" "$RSIW_OUT/"
