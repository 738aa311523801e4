#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# pairs: rsiw,rsiw
# kernel: stock
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# On a network that loses packets both ways most FPDUs still begin where TCP segments do. While an end misses a
# segment, its own segments have SACK blocks and less room for data. FPDUs that were queued before then do not
# fit the segments, up to the end of TCP's packet. (large_fpdu=0, as with peers other than rsiw.)

. /tests/lib.sh
. /tests/perftest/lib
. /tests/wire/lib
plan 5

offloads off
trap 'both tc qdisc del dev eth0 root; offloads on; _at_exit' EXIT
# How many packets the emulation has dropped on both hosts.
dropped() {
	local there
	there=$(peer tc -s qdisc show dev eth0) && { echo "$there" && tc -s qdisc show dev eth0; } |
		tee "$WORK/qdisc" | awk '/dropped/ { sub(/.*dropped /, ""); n += $1 } END { print n + 0 }'
}
lossy() { modprobe sch_netem && tc qdisc replace dev eth0 root netem limit 20000 loss "$1"; }

run "load the driver on both hosts" both load_driver large_fpdu=0 || exit 1
both lossy 1% || exit 1
begin_capture "$WORK/loss.pcap" 'tcp and port 7190'
PERFTEST_PORT=7190 TRY=40 LIMIT=90 run "ib_send_bw runs both ways on a lossy network" perftest 1 ib_send_bw -F -b -s 65536 -n 150
end_capture "the lossy network"
sacks() {
	local with
	with=$(tshark -n -r "$CAPTURE" -Y 'tcp.options.sack_le && tcp.len > 0' | wc -l)
	echo "$with segments with data have SACK blocks; $(dropped) packets were dropped"
	cat "$WORK/qdisc"
	[ "$with" -gt 50 ]
}
run "segments with data have SACK blocks" sacks
run "three of four TCP segments hold whole FPDUs" python3 -B /tests/wire/pcap.py lossy "$CAPTURE" ||
	cp "$CAPTURE" "$RSIW_OUT/"
