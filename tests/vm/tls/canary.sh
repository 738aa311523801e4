#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
#
# What a capture of the link shows of NFS over RDMA: of a file's name, which is in Sends, of what the client writes, which
# the server Reads, and of what it reads, which the server Writes. All of it without TLS, and nothing with TLS.

. /tests/lib.sh
. /tests/tls/lib
. /tests/wire/lib
. /tests/nfs/lib
plan 15

NAME=canary-in-the-name-of-a-file WRITTEN=CANARYTHATTHECLIENTWRITES READ=CANARYTHATTHECLIENTREADS
set_both() { both sh -c "echo $1 >/sys/class/infiniband/rsiw0/settings/tls"; }
# The data are the canaries and nothing else.
of() { yes "$1" | head -c 200000; }
moved() {
	mount_nfs 4.2 || return
	of $WRITTEN >"$MNT/$NAME" && sync "$MNT/$NAME" && cmp "$MNT/read" <(of $READ)
	local status=$?
	umount_nfs && return "$status"
}
captured() {
	begin_capture "$WORK/$1.pcap" "tcp and port 20049"
	LIMIT=60 run "NFS moves the canaries, $1" moved
	# tcpdump may be behind.
	wait_for 10 settled "$CAPTURE"
	end_capture "NFS $1"
}
settled() {
	local before
	before=$(stat -c %s "$1")
	sleep 1
	[ "$(stat -c %s "$1")" = "$before" ]
}
count() { grep -aoF "$2" "$1" | wc -l; }
# shows FILE: the capture has each canary. The large ones lie across packets now and then.
shows() {
	local text
	for text in $NAME $WRITTEN $READ; do count "$1" "$text"; done
	[ "$(count "$1" $NAME)" -ge 1 ] && [ "$(count "$1" $WRITTEN)" -gt 1000 ] && [ "$(count "$1" $READ)" -gt 1000 ]
}
# Parts of them, too, as records and packets begin anywhere.
hides() { [ "$(stat -c %s "$1")" -gt 400000 ] && ! grep -aqE 'CANARY|THECLIENT|canary|-of-a-file' "$1"; }

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver || exit 1
run "the peer serves NFS" on_server "serve_nfs rdma && yes $READ | head -c 200000 >\$EXPORT/read"
captured "without TLS"
run "the capture without TLS shows each canary" shows "$WORK/without TLS.pcap"
before=$(tls_streams)
run "TLS is required from now on" set_both 3
captured "with TLS"
run "the capture with TLS shows nothing of them" hides "$WORK/with TLS.pcap"
more() { [ "$(tls_streams)" -gt "${before:-0}" ]; }
run "the mount used TLS" more
run "TLS is not used from now on" set_both 0
captured "without TLS again"
run "the capture shows each canary again" shows "$WORK/without TLS again.pcap"
on_server stop_nfs
