#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
# pairs: *rsiw*
# interop: yes
#
# Without CRC, which both ends must agree to: rsiw by its parameter, siw by
# itself. Data is compared by the programs.

. /tests/lib.sh
. /tests/apps/lib
. /tests/perftest/lib
plan 8

# siw has no parameters; what it has by default is no CRC.
load='load_driver $([ "$RSIW_DRIVER" != rsiw ] || echo crc=0)'
both_without() { eval "$load" && peer_sh "$load"; }

verbs() {
	serve verbs 18515 rsiw-verbs server "$PEER" || return
	local gentle=
	[ "$RSIW_DRIVER,$RSIW_DRIVER_PEER" = rsiw,rsiw ] || gentle=-z
	# shellcheck disable=SC2086 # an option, or none
	rsiw-verbs client $gentle -t 'send*,write,read,inline,list,both-ways,long-1' \
		-x 'send-invalidate*,send-solicited' "$PEER"
}

# The C bit is 0x40 of the octet behind the key, in the Request and the Reply.
agreed() {
	local pcap=$WORK/setup.pcap pid
	tcpdump --immediate-mode -U -i eth0 -w "$pcap" tcp port 7174 2>"$WORK/tcpdump" &
	pid=$!
	wait_for 5 test -s "$pcap"
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
run "both say that they want none" agreed
run "rping over IPv4" try_rping "$PEER" 1000 20
run "rping over IPv6" try_rping "$PEER6" 65000 20
LIMIT=40 run "rcopy of 16 MiB" try_rcopy "$PEER" 16
LIMIT=40 run "verbs tests" verbs
drop verbs
run "ib_write_bw" perftest 1 ib_write_bw -s 65536 -n 60
run "ib_send_lat" perftest 1 ib_send_lat -s 2 -n 100
