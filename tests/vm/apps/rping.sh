#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
# time: virtual
# interop: yes
#
# rping with compared data in several sizes, over IPv4, IPv6 and link-local addresses,
# which are valid on their interface only.

. /tests/lib.sh
. /tests/apps/lib
plan 9

run "load the driver on both hosts" both load_driver || exit 1
for size in 64 1000 65000; do
	run "rping moves data over IPv4, $size bytes" try_rping "$PEER" "$size" 20
	run "rping moves data over IPv6, $size bytes" try_rping "$PEER6" "$size" 20
done

link_local=(ip -6 -o addr show dev eth0 scope link)
ours=$("${link_local[@]}" | grep -o 'fe80::[0-9a-f:]*')
theirs=$(peer "${link_local[@]}" | grep -o 'fe80::[0-9a-f:]*')
to_the_peer() { echo "$ours to $theirs" && try_rping "$theirs%eth0" 1000 20; }
run "rping connects to the peer's link-local address" to_the_peer
# The same with the roles swapped: this host responds.
from_the_peer() { patiently respond; }
respond() {
	rping -s -a "$ours%eth0" -p 7175 -V -v -S 1000 -C 20 >"$WORK/server" 2>&1 &
	listens 7175 || return
	if ! peer timeout "$(limit 8)" rping -c -a "$ours%eth0" -p 7175 -V -v -S 1000 -C 20 >"$WORK/client" 2>&1; then
		cut -c1-100 "$WORK/client"
		kill -9 "$!"
		return 1
	fi
	wait "$!"
	[ "$(grep -c 'server ping data' "$WORK/server")" = 20 ]
}
LIMIT=60 run "rping on the peer connects to this host's link-local address" from_the_peer
