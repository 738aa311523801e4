#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 150
# time: virtual
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: *rsiw*
# interop: yes
#
# Without CRC, which both ends must agree to: rsiw has a parameter for that, and siw uses
# no CRC by default. The programs compare the data. Beside siw a capture tells whether wrong data were sent so.

. /tests/lib.sh
. /tests/apps/lib
. /tests/perftest/lib
plan 8
# shellcheck disable=SC2034 # of lib.sh
CAPTURE_SIW=yes

load='load_driver $([ "$RSIW_DRIVER" != rsiw ] || echo crc=0)'
both_without() { eval "$load" && peer_sh "$load"; }

verbs() {
	drop verbs
	serve verbs 18515 rsiw-verbs server "$PEER" || return
	local gentle=
	[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || gentle=-z
	# shellcheck disable=SC2086 # an option, or none
	rsiw-verbs client $gentle -t 'send*,write,read,inline,list,both-ways,long-1' \
		-x 'send-invalidate*,send-solicited' "$PEER"
}

# In Request and Reply the C bit is 0x40 of the byte that follows the key.
agreed() {
	local pcap=$WORK/setup.pcap pid
	tcpdump --immediate-mode -U -i eth0 -w "$pcap" tcp port 7174 2>"$WORK/tcpdump" &
	pid=$!
	wait_for 25 test -s "$pcap"
	try_rping "$PEER" 100 1 || return
	kill "$pid"
	wait "$pid"
	python3 - "$pcap" <<-'END'
		import re, sys
		flags = re.findall(rb"MPA ID Re[qp] Frame(.)", open(sys.argv[1], "rb").read(), re.S)
		print([hex(f[0]) for f in flags])
		sys.exit(len(flags) < 2 or any(f[0] & 0x40 for f in flags))
	END
}

run "load the driver on both hosts, without CRC" both_without || exit 1
run "Request and Reply ask for no CRC" agreed
run "rping moves data over IPv4 without CRC" try_rping "$PEER" 1000 20
run "rping moves data over IPv6 without CRC" try_rping "$PEER6" 65000 20
LIMIT=40 run "rcopy copies 16 MiB without CRC" try_rcopy "$PEER" 16
LIMIT=80 run "verbs tests pass without CRC" patiently within 35 verbs
drop verbs
run "ib_write_bw moves messages without CRC" perftest 1 ib_write_bw -s 65536 -n 60
run "ib_send_lat moves messages without CRC" perftest 1 ib_send_lat -s 2 -n 100
