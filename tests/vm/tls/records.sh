#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 240
# pairs: rsiw,*
#
# Peers that attack TLS itself, as clients and as servers: records, alerts, ends, handshakes and certificates. And
# the openssl programs as honest peers.

. /tests/lib.sh
. /tests/tls/lib
export RSIW_TLS=$TLS
mapfile -t results < <(python3 /tests/tls/records.py --list)
plan $((${#results[@]} + 7))

start() {
	certificates && own_tlshd && authority other && certificate foreign other "IP:$A4" &&
		certificate nameless ca "DNS:elsewhere,IP:10.99.0.1" &&
		certificate expired ca "IP:$A4" -not_before 20200101000000Z -not_after 20200201000000Z &&
		certificate future ca "IP:$A4" -not_before 20400101000000Z -not_after 20410101000000Z
}
# Its Request is answered, and its bad FPDU by a Terminate.
as_client() {
	: >"$WORK/s_client"
	# shellcheck disable=SC2094 # on purpose
	{
		printf 'MPA ID Req Frame\x00\x01\x00\x00'
		wait_for 10 grep -a -q 'MPA ID Rep Frame' "$WORK/s_client"
		printf '\x00\x12\xff\xff0123456789abcdef'
		wait_for 10 terminated
	} | timeout 20 openssl s_client -quiet -connect "$ADDR:7500" -CAfile "$TLS/ca.pem" -cert "$TLS/hosta.pem" \
		-key "$TLS/hosta.key" -tls1_3 >"$WORK/s_client" 2>"$WORK/said"
	od -c "$WORK/s_client"
	grep -a -q 'MPA ID Rep Frame' "$WORK/s_client" && terminated
}
# What follows the Reply is a Terminate.
terminated() { [ "$(stat -c %s "$WORK/s_client")" -gt 30 ]; }
# as_server REPLY: a server answers the Request so, and lets the client make no other connection.
as_server() {
	: >"$WORK/s_server"
	# shellcheck disable=SC2094 # on purpose
	{
		wait_for 20 grep -a -q 'MPA ID Req Frame' "$WORK/s_server"
		printf '%b' "MPA ID Rep Frame$1"
		sleep 3
	} | timeout 30 openssl s_server -quiet -accept 7600 -Verify 1 -verify_return_error -CAfile "$TLS/ca.pem" \
		-cert "$TLS/hosta.pem" -key "$TLS/hosta.key" -tls1_3 -naccept 1 >"$WORK/s_server" 2>"$WORK/said" &
	listens 7600 || sleep 1
	rping -c -a "$ADDR" -p 7600 -C 1 2>&1 | tee "$WORK/rping"
	cat "$WORK/said"
	od -c "$WORK/s_server"
	grep -a -q 'MPA ID Req Frame' "$WORK/s_server"
}
# As the R bit says. It knows the offer of large FPDUs, or the client would repeat its attempt without.
refuses() { as_server '\x34\x02\x00\x04\x00\x00\x00\x00' && grep -q 'REJECTED\|error -111' "$WORK/rping"; }
is_old() { as_server '\x00\x01\x00\x00' && dmesg | grep 'bad MPA Reply: revision 1 within TLS'; }
run "tlshd starts" start || exit 1
run "load the driver" load_driver tls=3 initiator_wait_ms=0 recv_wait_ms=20 || exit 1
told_by "peers that attack TLS" python3 /tests/tls/records.py "$ADDR" 7190
rping -s -P -a "$ADDR" -p 7500 >"$WORK/rping" 2>&1 &
run "an rping server listens" listens 7500
run "openssl s_client is answered, and gets a Terminate" as_client
run "openssl s_server can refuse a connection" refuses
run "a Reply of revision 1 ends an attempt" is_old
cp /tmp/tlshd.log "$RSIW_OUT/"
