#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
#
# fio's rdma engine in each of its ways. What is sent is verified by checksum
# where it arrives; of Writes and Reads the engine lets the server see nothing.

. /tests/lib.sh
plan 4

run "load the driver on both hosts" both load_driver || exit 1

# transfer VERB SERVER-OPTION...: the client, which is always called a writer,
# posts that verb.
transfer() { patiently within 25 transfer_once "$@"; }
transfer_once() {
	local verb=$1
	shift
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	rm -f "$WORK/server.pid"
	# A receive for every block of a Send from the start: over iWARP a Send without one ends the
	# connection, and the server, which verifies, is slower than the client.
	peer_bg server fio --name=server --ioengine=rdma --port=3333 --rw=read \
		--bs=128k --size=16m --iodepth=128 "$@"
	server_up 3333 || return
	fio --name=client --ioengine=rdma --hostname="$PEER" --port=3333 --verb="$verb" \
		--rw=write --bs=128k --size=16m --iodepth=8 --verify=crc32c --do_verify=0 \
		>"$WORK/client" 2>&1 || { cat "$WORK/client"; return 1; }
	peer_end server 15 >/dev/null || { cat "$WORK/server"; return 1; }
	cat "$WORK/client"
	# All of it, and without a word about errors.
	grep -E 'io=16.0MiB|\(16.8MB\)|16\.0MiB' "$WORK/client" &&
		grep -E 'err= *0' "$WORK/client" && grep -E 'err= *0' "$WORK/server" &&
		! grep -i 'verify:\|bad ' "$WORK/client" "$WORK/server"
}

LIMIT=60 run "Sends, verified where they arrive" \
	transfer send --verify=crc32c --verify_fatal=1
LIMIT=60 run "Writes" transfer write
LIMIT=60 run "Reads" transfer read
