#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 150
#
# NFS over RDMA, the kernel's own client and server, in each version: data and
# names go there and come back. With siw at one end, the newest.

. /tests/lib.sh
. /tests/nfs/lib
versions=(3 4.1 4.2)
[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || versions=(4.2)
plan $((4 + 4 * ${#versions[@]}))

run "load the driver on both hosts" both load_driver || exit 1
run "the server listens" on_server serve_nfs || exit 1
for version in "${versions[@]}"; do
	run "v$version: mount" mount_nfs "$version" || continue
	LIMIT=60 run "v$version: data" data
	LIMIT=60 run "v$version: names" names
	run "v$version: unmount" umount_nfs
done
run "the server stops" on_server stop_nfs
run "nothing stays" gone 10 rpcrdma
