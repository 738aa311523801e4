#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 150
#
# NFS over RDMA in each version, with the kernel's own client and server: data and names are written and read
# back. One mount is over IPv6. With siw at one end, only the newest version. VERSIONS: these, over IPv4 only.

. /tests/lib.sh
. /tests/nfs/lib
versions=(3 4.1 4.2) over6=1
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || versions=(4.2) over6=0
[ -z "${VERSIONS:-}" ] || { read -ra versions <<<"$VERSIONS"; over6=0; }
plan $((4 + 4 * ${#versions[@]} + 4 * over6))

by_ipv6() { ss -Htn state established | grep -F "[$PEER6]:20049"; }

run "load the driver on both hosts" both load_driver || exit 1
run "the NFS server listens" on_server serve_nfs || exit 1
for version in "${versions[@]}"; do
	run "NFS v$version mounts over RDMA" mount_nfs "$version" || continue
	LIMIT=60 run "the NFS v$version mount holds data" data
	LIMIT=60 run "the NFS v$version mount holds names and links" names
	run "NFS v$version unmounts" umount_nfs
done
if [ "$over6" = 1 ]; then
	SERVER="[$PEER6]" run "NFS mounts over IPv6" mount_nfs 4.2
	run "the NFS mount over IPv6 is connected by IPv6" by_ipv6
	LIMIT=60 run "the NFS mount over IPv6 holds data" files_data "$MNT" "$EXPORT" 0 511 4097 70001 1048577
	run "the NFS mount over IPv6 unmounts" umount_nfs
fi
run "the NFS server stops" on_server stop_nfs
run "the rpcrdma module unloads" unload_module 10 rpcrdma
