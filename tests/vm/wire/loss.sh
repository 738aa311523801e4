#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# pairs: rsiw,rsiw
# kernel: stock
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# On a network that loses packets both ways most FPDUs still begin where TCP segments do. While an end waits
# for what is lost, its segments have SACK blocks and less room for data, and what TCP has queued before is
# out of step up to the end of its packet.

. /tests/lib.sh
. /tests/perftest/lib
. /tests/wire/lib
plan 5

# Each packet as it goes over the wire.
offloads() { both ethtool -K eth0 tso "$1" gso "$1" gro "$1" >/dev/null; }
offloads off
trap 'both tc qdisc del dev eth0 root; offloads on; _at_exit' EXIT
# What the emulation has dropped on both hosts.
dropped() {
	local there
	there=$(peer tc -s qdisc show dev eth0) && { echo "$there" && tc -s qdisc show dev eth0; } |
		tee "$WORK/qdisc" | awk '/dropped/ { sub(/.*dropped /, ""); n += $1 } END { print n + 0 }'
}
lossy() { modprobe sch_netem && tc qdisc replace dev eth0 root netem limit 20000 loss "$1"; }

run "load the driver on both hosts" both load_driver || exit 1
both lossy 1% || exit 1
begin "$WORK/loss.pcap" 'tcp and port 7190'
PERFTEST_PORT=7190 TRY=40 LIMIT=90 run "Sends both ways" perftest 1 ib_send_bw -F -b -s 65536 -n 60
end
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
