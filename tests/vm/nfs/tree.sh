#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# kernel: stock
#
# A source tree is copied to a mount, built there with the compiler of the build root,
# and removed. It holds some of the kernel's tools; TREE=all: objtool and libbpf.

. /tests/lib.sh
. /tests/nfs/lib
plan 10

ROOT=/tmp/root
compiler() {
	mkdir -p "$ROOT" &&
		mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose root "$ROOT" &&
		mount -t tmpfs none "$ROOT/tmp" && mount --bind /dev "$ROOT/dev" &&
		mount -t proc none "$ROOT/proc" && mount --bind "$MNT" "$ROOT/mnt"
}
in_root() { chroot "$ROOT" bash -c "$1"; }

# The files that objtool and libbpf are made of, or some small tools.
parts() {
	if [ "${TREE:-}" = all ]; then
		find tools/{include,lib,objtool,build,arch,scripts} scripts/bpf_doc.py \
			include/uapi/linux/bpf.h -not -type d
	else
		find tools/{build,scripts,leds,pcmcia} -not -type d
	fi
}
copy() {
	in_root "$(declare -f parts); cd $RSIW_SOURCE && TREE=${TREE:-} parts | tar -c -T - | tar -x -C /mnt" &&
		find "$MNT" -type f | wc -l
}
build() {
	if [ "${TREE:-}" = all ]; then
		in_root 'make -s -C /mnt/tools/objtool && make -s -C /mnt/tools/lib/bpf &&
			/mnt/tools/objtool/objtool --help 2>&1 | grep "Usage: objtool" &&
			[ "$(ar t /mnt/tools/lib/bpf/libbpf.a)" = libbpf-in.o ]'
	else
		in_root 'make -s -C /mnt/tools/leds && make -s -C /mnt/tools/pcmcia &&
			/mnt/tools/pcmcia/crc32hash rsiw | grep "^0x"'
	fi
}
sums() { cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum; }
same_tree() {
	forget
	sums "$MNT" >"$WORK/here"
	peer_sh "$(declare -f sums); sums $EXPORT" | diff "$WORK/here" -
}

run "load the driver on both hosts" both load_driver || exit 1
run "the NFS server listens" on_server serve_nfs || exit 1
run "mount NFS over RDMA" mount_nfs 4.2 || exit 1
run "mount the root of the compiler" compiler || exit 1
LIMIT=60 run "a source tree is copied to the NFS mount" copy
LIMIT=100 run "the source tree builds on the NFS mount" build
LIMIT=120 run "the NFS server has the same files as the client" same_tree
LIMIT=60 run "the source tree is removed from the NFS mount" rm -r "$MNT"/*
run "unmount NFS and the root" eval 'umount "$ROOT"/{mnt,proc,dev,tmp} "$ROOT" && umount_nfs'
run "the NFS server stops" on_server stop_nfs
