#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# pairs: rsiw,*
#
# A peer that speaks MPA by hand, well and badly, to a listening consumer.

. /tests/lib.sh

cases=(revision_1 revision_2 peer_to_peer depths_not_negotiated crc_off markers
	byte_by_byte longest_private_data bad_frames early_fpdu gone_at_once
	rtr_forms silence no_rtr_comes many_half_open)
plan $((${#cases[@]} * 2 + 5))

run "load the driver" load_driver || exit 1
peer_bg server rping -s -P -a 0.0.0.0 -p 7180
peer_bg server6 rping -s -P -a "$ADDR6" -p 7181
server_up 7180
server_up 7181
for case in "${cases[@]}"; do
	LIMIT=60 run "IPv4: $case" python3 /tests/cm/wire.py responder "$case" "$ADDR" 7180
	LIMIT=60 run "IPv6: $case" python3 /tests/cm/wire.py responder "$case" "$ADDR6" 7181
done
peer_bg large rping -s -P -S 20000 -a 0.0.0.0 -p 7183
server_up 7183
LIMIT=60 run "marked" python3 /tests/cm/wire.py responder marked "$ADDR" 7183
kill -STOP "$(<"$WORK/large.pid")"
LIMIT=60 run "backlog" python3 /tests/cm/wire.py responder backlog "$ADDR" 7183
kill -CONT "$(<"$WORK/large.pid")"
peer_kill large
peer_bg ping rping -s -C 5 -v -a "$ADDR" -p 7182
server_up 7182
run "a real one still connects" rping -c -C 5 -v -a "$ADDR" -p 7182
peer_kill server
peer_kill server6
port_is_free() { python3 -c "import socket; socket.create_server(('', 7180), reuse_port=False).close()"; }
run "the port is free once the listener has gone" wait_for 5 port_is_free
