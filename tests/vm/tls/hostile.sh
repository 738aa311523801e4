#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 300
# pairs: rsiw,*
#
# A peer that speaks TLS, and breaks the rules of TLS, or those of MPA within it, or does nothing while regions end.

. /tests/lib.sh
. /tests/tls/lib
plan 26

start() { certificates && own_tlshd; }
alive() { kill -0 "$server"; }
# The openssl program sends a KeyUpdate when a line begins with k.
new_keys() {
	dmesg >"$WORK/before"
	: >"$WORK/s_client"
	# shellcheck disable=SC2094 # on purpose
	{
		printf 'MPA ID Req Frame\x08\x01\x00\x00'
		wait_for 10 grep -aq 'MPA ID Rep Frame' "$WORK/s_client"
		printf 'k\n'
		sleep 2
	} | timeout 20 openssl s_client -connect "$ADDR:7500" -CAfile "$TLS/ca.pem" -cert "$TLS/hosta.pem" \
		-key "$TLS/hosta.key" -tls1_3 >"$WORK/s_client" 2>&1
	tail -n 5 "$WORK/s_client"
	log_says_soon "$WORK/before" "TLS stream broken: error -127"
}
run "tlshd starts" start || exit 1
run "load the driver" load_driver tls=3 || exit 1
rping -s -P -a "$ADDR" -p 7500 >"$WORK/rping" 2>&1 &
server=$!
run "an rping server listens" listens 7500 || exit 1
told_by "peers that break rules of TLS" env RSIW_TLS="$TLS" python3 /tests/tls/hostile.py "$ADDR" 7500
RSIW_TLS=$TLS told_by "peers that do nothing" python3 /tests/wire/freed.py "$ADDR" 7502
cp /tmp/tlshd.log "$RSIW_OUT/"
LIMIT=60 run "new keys of the peer end the stream, and the log says so" new_keys
run "an honest connection works after all that" rping -c -a "$ADDR" -p 7500 -C 3
