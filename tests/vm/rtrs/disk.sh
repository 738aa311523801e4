#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# kernel: debug
#
# RNBD over RTRS, which sends each request as an RDMA Write with immediate data: a disk of
# the peer's is mapped, written, read back and compared, and unmapped.

. /tests/lib.sh
plan 14

# The memory for requests is 128 KiB times the depth.
serve_rnbd() { modprobe rtrs-server sess_queue_depth=32 && modprobe rnbd-server && listens 1234; }
map() {
	echo "sessname=test path=ip:$PEER device_path=/dev/ram0" \
		>/sys/devices/virtual/rnbd-client/ctl/map_device
}
unmap() { echo normal >/sys/block/rnbd0/rnbd/unmap_device; }
pattern() { openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2>/dev/null | head -c 8M; }
write_pattern() { pattern >"$WORK/pattern" && dd if="$WORK/pattern" of=/dev/rnbd0 bs=64K oflag=direct; }
read_back() { dd if=/dev/rnbd0 bs=256K count=32 iflag=direct | cmp - "$WORK/pattern"; }
peer_has_it() { [ "$(peer sh -c "head -c 8M /dev/ram0 | sha256sum")" = "$(sha256sum <"$WORK/pattern")" ]; }
no_qp() { [ -z "$(rdma resource show qp)$(peer rdma resource show qp)" ]; }

run "load the driver on both hosts" both load_driver || exit 1
run "the RNBD server listens" peer_sh "$(declare -f serve_rnbd); serve_rnbd" || exit 1
run "load the RNBD client" modprobe rnbd-client || exit 1
run "a disk of the peer's is mapped" map || exit 1
run "the disk is there" wait_for 20 test -b /dev/rnbd0
run "8 MiB are written" write_pattern
run "they are read back" read_back
run "the peer's disk has them" peer_has_it
run "single sectors are written and read" eval \
	'dd if="$WORK/pattern" of=/dev/rnbd0 bs=512 count=100 oflag=direct && read_back'
peer_bg server rping -s -C 20
server_up 7174
run "rping beside it" rping -c -a "$PEER" -C 20
run "the disk is unmapped" unmap
run "the connections of RTRS end" wait_for 20 no_qp
run "the RNBD client unloads" modprobe -r rnbd-client
run "the RNBD server unloads" peer modprobe -r rnbd-server
