#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# time: virtual
# pairs: rsiw,rsiw
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# Another implementation takes what rsiw sends for iWARP: tshark decodes it and checks
# the CRCs. Each TCP segment holds whole FPDUs, as peers other than rsiw get them (large_fpdu=0).
#= 5041-3-2

. /tests/lib.sh
. /tests/perftest/lib
. /tests/wire/lib
plan 16

offloads off
trap 'offloads on; _at_exit' EXIT

run "load the driver on both hosts" both load_driver large_fpdu=0 || exit 1

tests='tcp and portrange 7174-7190'
begin_capture "$WORK/short.pcap" "$tests"
PERFTEST_PORT=7190 LIMIT=60 run "ib_write_bw moves short messages" perftest 1 ib_write_bw -F -s 64 -n 5000
end_capture "short messages"
run "short messages lie in one TCP segment, often with others" \
	python3 -B /tests/wire/pcap.py gathered "$CAPTURE" || cp "$CAPTURE" "$RSIW_OUT/"

begin_capture "$WORK/wire.pcap" "$tests"

run "rping connects to the peer" rping_peer "$PEER" 7174 -C 20
port=7180
for test in ib_send_bw ib_write_bw ib_read_bw; do
	PERFTEST_PORT=$port LIMIT=60 run "$test moves messages of 64 KiB" perftest 1 "$test" -F -s 65536 -n 10
	port=$((port + 1))
done
end_capture "rping and perftest"

LIMIT=90 run "tshark decodes the capture" decode || exit 1

# What tshark complains of, but for TCP, where losses are normal, and for fields of MPA
# revision 2 (RFC 6581): tshark knows MPA of RFC 5044 only.
complaints() {
	sed -n '/^Errors\|^Warns/,$p' "$DUMP" |
		grep -E '^ +[0-9]+ +[A-Z]' | grep -vE ' TCP +[A-Z]| (Res|Rev) field is NOT set to'
	grep -iE 'malformed|Bad length|Dissector bug|Reassembly error' "$DUMP"
}
#= 5040-6.1-1
no_complaints() { ! complaints; }
run "tshark finds nothing wrong in the capture" no_complaints

#= 5044-1.2-2, 5044-4.4-3
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
run "tshark sees connection setup, with CRCs and no markers" setup
#= 5040-6.1-1
fpdus() {
	echo "$(count '^    FPDU') FPDUs, good CRCs: $(count 'Good CRC32'), bad: $(count 'Bad CRC32')"
	# 2 MB in at most 1448 bytes each.
	[ "$(count '^    FPDU')" -gt 1300 ] && [ "$(count 'Bad CRC32')" = 0 ] &&
		[ "$(count 'Good CRC32')" = "$(count '^    FPDU')" ]
}
run "tshark finds the CRC of every FPDU good" fpdus
messages() {
	local kind
	for kind in Write 'Read Request' 'Read Response' Send; do
		echo "$kind: $(count "OpCode: $kind \\(")"
		[ "$(count "OpCode: $kind \\(")" -ge 20 ] || return
	done
	[ "$(count 'OpCode: Terminate')" = 0 ]
}
run "tshark sees each kind of message and no Terminate" messages

# Proof that tshark finds a bad CRC: one bit of one FPDU's data is changed.
wrong() {
	python3 -B /tests/wire/pcap.py flip "$CAPTURE" "$WORK/wrong.pcap" &&
		decode "$WORK/wrong.pcap" "$WORK/wrong" && [ "$(grep -c 'Bad CRC32' "$WORK/wrong")" = 1 ]
}
LIMIT=90 run "tshark finds one bad CRC when a bit is changed" wrong
run "nine of ten TCP segments hold whole FPDUs" python3 -B /tests/wire/pcap.py align "$CAPTURE" ||
	cp "$CAPTURE" "$RSIW_OUT/"
