#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 180
# kernel: stock
#
# A client with hardly any free memory writes much more than that: pages become free
# only when they have been written over the connection. Meanwhile the server restarts,
# so the client has to connect again without memory.

. /tests/lib.sh
. /tests/nfs/lib
plan 9

LEFT=100 FILE=170
available() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }
fill() {
	local pages try
	forget
	# Huge pages, of 2 MiB, which no process uses. Where memory is fragmented the kernel finds fewer at once.
	for try in 1 2 3 4 5; do
		echo 1 >/proc/sys/vm/compact_memory
		pages=$(</proc/sys/vm/nr_hugepages)
		echo $((pages + ($(available) - LEFT) / 2)) >/proc/sys/vm/nr_hugepages
		[ "$(available)" -ge $((LEFT + 20)) ] || break
	done
	echo "$(available) MiB after $try tries"
	[ "$(available)" -lt $((LEFT + 20)) ]
}
# stored MEGABYTES: the server has so much of the file.
stored() { on_server "[ \$(stat -c %s $EXPORT/file) -ge $(($1 << 20)) ]"; }
reclaimed() { awk '/^allocstall_/ { n += $2 } /^pgsteal_/ { n += $2 } END { print n }' /proc/vmstat; }
written() {
	local before pid times
	before=$(reclaimed)
	openssl enc -aes-128-ctr -nosalt -pass pass:rsiw -pbkdf2 </dev/zero 2>/dev/null |
		head -c "${FILE}M" | tee "$MNT/file" | sha256sum >"$WORK/sum" &
	pid=$!
	for times in 2 3; do
		wait_for 30 stored $(((times - 1) * FILE / 3)) && restart_nfs || return
		# The client may wait for a while before it connects.
		wait_for 20 connected "$times"
	done
	wait "$pid" && sync || return
	echo "reclaimed pages: $(($(reclaimed) - before))"
	[ "$(reclaimed)" -gt $((before + 3000)) ]
}
same_file() { on_server "sha256sum <$EXPORT/file" | diff "$WORK/sum" -; }

run "load the driver on both hosts" both load_driver || exit 1
run "the NFS server listens" on_server serve_nfs || exit 1
run "mount NFS over RDMA" mount_nfs 4.2 || exit 1
run "fill the memory of the NFS client" fill || exit 1
LIMIT=120 run "$FILE MiB are written with hardly any memory" written
run "the NFS client has connected three times" connected 3
run "the NFS server has what was written" same_file
run "free the memory of the NFS client" eval "echo 0 >/proc/sys/vm/nr_hugepages"
run "unmount NFS" umount_nfs
