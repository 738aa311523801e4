#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 150
#
# NFS over RDMA, the kernel's own client and server, in each version: data and
# names go there and come back. With siw at one end, the newest. One mount is over IPv6. VERSIONS: these,
# over IPv4.

. /tests/lib.sh
. /tests/nfs/lib
versions=(3 4.1 4.2) over6=1
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || versions=(4.2) over6=0
[ -z "${VERSIONS:-}" ] || { read -ra versions <<<"$VERSIONS"; over6=0; }
plan $((4 + 4 * ${#versions[@]} + 4 * over6))

by_ipv6() { ss -Htn state established | grep -F "[$PEER6]:20049"; }

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_nfs || exit 1
for version in "${versions[@]}"; do
	run "v$version: mount" mount_nfs "$version" || continue
	LIMIT=60 run "v$version: data" data
	LIMIT=60 run "v$version: names" names
	run "v$version: unmount" umount_nfs
done
if [ "$over6" = 1 ]; then
	SERVER="[$PEER6]" run "IPv6: mount" mount_nfs 4.2
	run "IPv6: the connection is one to the peer's IPv6 address" by_ipv6
	LIMIT=60 run "IPv6: data" files_data "$MNT" "$EXPORT" 0 511 4097 70001 1048577
	run "IPv6: unmount" umount_nfs
fi
run "the server stops" on_server stop_nfs
run "nothing stays" gone 10 rpcrdma
