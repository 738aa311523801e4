#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 240
# pairs: rsiw,*
#
# A peer that makes its MPA frames itself, good and bad ones, connects to a listening consumer (responder.py).

. /tests/lib.sh

cases=(revision_1 revision_2 peer_to_peer depths_not_negotiated crc_off markers
	byte_by_byte longest_private_data bad_frames early_fpdu gone_at_once
	rtr_forms terminated_in_message many_half_open silent_peers)
plan $((${#cases[@]} * 2 + 14))

run "load the driver" load_driver || exit 1
peer_bg server rping -s -P -a 0.0.0.0 -p 7180
peer_bg server6 rping -s -P -a "$ADDR6" -p 7181
server_up 7180
server_up 7181
# responder CASE ADDRESS PORT
responder() { python3 /tests/cm/wire.py responder "$@"; }
# A consumer that listens, but never answers a request: it is stopped.
peer_bg sleeper rping -s -P -a 0.0.0.0 -p 7184
server_up 7184
kill -STOP "$(<"$WORK/sleeper.pid")"
peer_bg unanswered responder unanswered "$ADDR" 7184
all=$(IFS=,; echo "${cases[*]}")
told_by "cases over IPv4" responder "$all" "$ADDR" 7180
told_by "cases over IPv6" responder "$all" "$ADDR6" 7181
peer_bg requests requests "$ADDR" 7185
server_up 7185
LIMIT=60 run "requests are reported in order" responder in_order "$ADDR" 7185
LIMIT=60 run "refused" responder refused "$ADDR" 7185
peer_kill requests
# Another consumer that is stopped.
peer_bg deaf rping -s -P -a 0.0.0.0 -p 7186
server_up 7186
kill -STOP "$(<"$WORK/deaf.pid")"
run "a FIN behind data ends a request" responder fin_behind_data "$ADDR" 7186
kill -CONT "$(<"$WORK/deaf.pid")"
peer_kill deaf
peer_bg large rping -s -P -S 20000 -a 0.0.0.0 -p 7183
server_up 7183
LIMIT=60 run "marked" responder marked "$ADDR" 7183
kill -STOP "$(<"$WORK/large.pid")"
# The case holds 128 silent connections at once, each of which ends after ten seconds, also on a slow kernel.
if [ "$RSIW_KERNEL" = stock ]; then
	LIMIT=60 run "backlog" responder backlog "$ADDR" 7183
else
	skip "backlog" "too slow to make 128 connections in ten seconds"
fi
kill -CONT "$(<"$WORK/large.pid")"
peer_kill large
peer_bg ping rping -s -C 5 -v -a "$ADDR" -p 7182
server_up 7182
run "rping still connects after all cases" rping -c -C 5 -v -a "$ADDR" -p 7182
LIMIT=120 run "requests without an answer are withdrawn" peer_end unanswered 100
kill -CONT "$(<"$WORK/sleeper.pid")"
peer_kill sleeper
peer_kill server
peer_kill server6
port_is_free() { python3 -c "import socket; socket.create_server(('', 7180), reuse_port=False).close()"; }
run "the port is free once the listener has gone" wait_for 5 port_is_free

run "unload the driver" unload_driver
run "load the driver for large FPDUs" load_driver
peer_bg larger rping -s -P -S 20000 -a 0.0.0.0 -p 7187
server_up 7187
LIMIT=60 run "marked_large" responder marked_large "$ADDR" 7187
peer_kill larger
