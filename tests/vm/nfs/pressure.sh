#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 180
# kernel: stock
#
# A client with hardly any memory left writes far more than that: pages become free
# only by being written over the connection. In the midst of it the server starts
# again, so the connection has to be made anew without memory.

. /tests/lib.sh
. /tests/nfs/lib
plan 9

LEFT=100 FILE=170
available() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
fill() {
	forget
	# Pages that nobody gets, of 2 MiB.
	echo $((($(available) - LEFT) / 2)) >/proc/sys/vm/nr_hugepages
	available
	[ "$(available)" -lt $((LEFT + 20)) ]
}
reclaimed() { awk '/^allocstall_/ { n += $2 } /^pgsteal_/ { n += $2 } END { print n }' /proc/vmstat; }
written() {
	local before pid times
	before=$(reclaimed)
	openssl enc -aes-128-ctr -nosalt -pass pass:rsiw -pbkdf2 </dev/zero 2>/dev/null |
		head -c "${FILE}M" | tee "$MNT/file" | sha256sum >"$WORK/sum" &
	pid=$!
	for times in 2 3; do
		sleep 1.5
		on_server 'rpc.nfsd 0; sleep 1; serve_nfs' || return
		# It may wait for a while before it tries.
		wait_for 20 connected "$times"
	done
	wait "$pid" && sync || return
	echo "reclaimed pages: $(($(reclaimed) - before))"
	[ "$(reclaimed)" -gt $((before + 3000)) ]
}
same() { on_server "sha256sum <$EXPORT/file" | diff "$WORK/sum" -; }

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_nfs || exit 1
run "mount" mount_nfs 4.2 || exit 1
run "memory is full" fill || exit 1
LIMIT=120 run "$FILE MiB are written" written
run "over three connections" connected 3
run "the server has them" same
run "memory is free again" eval "echo 0 >/proc/sys/vm/nr_hugepages"
run "unmount" umount_nfs
