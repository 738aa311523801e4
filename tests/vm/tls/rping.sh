#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# pairs: rsiw,rsiw
#
# Data over TLS: rping in both families, both ways, and with more than TCP has room for. No byte of what is sent
# can be read on the link, and TLS is loaded only when it is used.

. /tests/lib.sh
. /tests/tls/lib
. /tests/wire/lib
plan 13

# The module's users; none: it is not loaded.
tls_users() { cat /sys/module/tls/refcnt 2>/dev/null || echo none; }
no_tls() {
	local now
	now=$(tls_users)
	echo "users before: $before, now: $now"
	[ "$now" = none ] || { [ "$before" != none ] && [ "$now" -le "$before" ]; }
}
# canary FILE: how often the file has the text that rping sends: 'ABCD...' as it is in ASCII.
canary() { grep -aoc 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' "$1"; }
hidden() { [ "$(canary "$1")" = 0 ] && [ "$(stat -c %s "$1")" -gt 100000 ]; }
shown() { [ "$(canary "$1")" -gt 10 ]; }
set_both() { both sh -c "echo $1 >/sys/class/infiniband/rsiw0/settings/tls"; }
names_peer() { dmesg | grep -F 'TLS with "hostb"' && there sh -c "dmesg | grep -F 'TLS with \"hosta\"'"; }

run "tlshd starts on both hosts" tls_up || { show /tmp/tlshd.log; cat /proc/net/netlink; exit 1; }
# Another job may have needed it on this host, and TCP may still have connections of that job's.
[ "$(tls_users)" = none ] || wait_for 20 rmmod tls
before=$(tls_users)
run "load the driver on both hosts" both load_driver || exit 1
run "rping connects without TLS" rping_peer "$PEER" 7173 -C 3
run "TLS is not loaded without need" no_tls
begin_capture "$WORK/clear.pcap" "tcp and port 7174"
rping_peer "$PEER" 7174 -C 20 -S 5000 >/dev/null
end_capture "rping without TLS"
run "the canary shows without TLS" shown "$WORK/clear.pcap"
set_both 3
begin_capture "$WORK/tls.pcap" "tcp and port 7175"
LIMIT=60 run "rping connects over TLS" rping_peer "$PEER" 7175 -C 20 -S 5000 || {
	cp /tmp/tlshd.log "$RSIW_OUT/"
	peer cat /tmp/tlshd.log
}
end_capture "rping over TLS"
run "the canary does not show over TLS" hidden "$WORK/tls.pcap"
LIMIT=60 run "rping connects over TLS and IPv6" rping_peer "$PEER6" 7176 -C 10 || {
	cp /tmp/tlshd.log "$RSIW_OUT/"
	peer cat /tmp/tlshd.log
	dmesg | tail
}
LIMIT=60 run "rping moves much data over TLS" rping_peer "$PEER" 7177 -C 10 -S 60000
run "the log names the peers" names_peer
peer_bg rping rping -s -a "$PEER" -p 7178 -C 1000000
server_up 7178
rping -c -a "$PEER" -p 7178 -C 1000000 >"$WORK/rping.client" 2>&1 &
shows_peer() { rdma -dd resource show qp | tee "$WORK/qps"; grep -q 'drv_tls_peer hostb' "$WORK/qps"; }
run "rdma shows the peer of a queue pair" wait_for 10 shows_peer
rdma -dd resource show qp
kill %2
peer_kill rping
