#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# pairs: rsiw,rsiw
#
# Consumers in the kernel, which use each RDMA device that they can, beside a link that is none of theirs: they leave
# it alone, and work over the other one as before.

. /tests/lib.sh
. /tests/rc/lib
. /tests/nfs/lib

modules=()
for module in nvme_rdma nvmet_rdma rpcrdma ib_iser ib_isert ib_srp ib_srpt rtrs_client rtrs_server rds_rdma smc ib_ipoib \
	ib_umad cifs ksmbd; do
	! modinfo "$module" >/dev/null 2>&1 || modules+=("$module")
done
run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
note "modules: ${modules[*]}"
run "load consumers on both hosts" both modprobe -a "${modules[@]}"
again() { rdma link del rc0 && rc_add rc0 eth0; }
run "a link is deleted and made beside them" again
unused() { rdma resource show | tee "$WORK/res" && grep -q 'rc0: .*pd 0 .*cq 0 .*qp 0' "$WORK/res"; }
run "no consumer has made an object on it" unused
no_umad() { ! grep -qs rc0 /sys/class/infiniband_mad/umad*/ibdev /sys/class/infiniband_cm/ucm*/ibdev; }
run "it has no management datagrams" no_umad
run "the peer exports a file system" on_server serve_nfs
run "NFS mounts it over the other link" mount_nfs 4.2
run "NFS moves data" files_data "$MNT" "$EXPORT" 100000 1000000
run "a link is deleted while NFS is mounted" rdma link del rc0
run "NFS still moves data" files_data "$MNT" "$EXPORT" 50000
run "NFS unmounts" umount "$MNT"
