#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 120
# pairs: rsiw,rsiw
#
# Programs that run when a process of a cgroup makes a socket (BPF_CGROUP_INET_SOCK_CREATE) run for the sockets of its
# RDMA connections, too: one that marks them, also where an attempt is repeated, and one that forbids them.

. /tests/lib.sh
. /tests/device/lib
GROUP=/sys/fs/cgroup/rsiw-creator
mkdir "$GROUP"
if ! python3 -B /tests/net/creator.py mark "$GROUP"; then
	rmdir "$GROUP"
	skip_all "this kernel has no programs of cgroups"
fi
plan 9

in_group() { sh -c 'echo $$ >'"$GROUP"'/cgroup.procs; exec "$@"' sh "$@"; }
# Counts this host's SYNs for ports 7640 to 7649, and those of them with the mark.
count_syns() {
	nft -f - <<-END
		table inet creator {
			counter syns { }
			counter marked { }
			chain out {
				type filter hook output priority 0;
				tcp dport 7640-7649 tcp flags & (syn | ack) == syn counter name syns
				tcp dport 7640-7649 tcp flags & (syn | ack) == syn meta mark 0x77 counter name marked
			}
		}
	END
}
syns() { nft list counter inet creator "$1" | grep -oP 'packets \K\d+'; }
marked() { echo "SYNs: $(syns syns), with the mark $(syns marked)"; [ "$(syns marked)" = "$1" ]; }
refused() {
	local before
	before=$(syns syns)
	says "-111" in_group timeout 20 rping -c -a "$PEER" -p 7642 -C 1 || return
	# TCP at the peer refuses it a few times, and none of the SYNs is lost on this link.
	echo "$(($(syns syns) - before)) SYNs"
	[ $(($(syns syns) - before)) -gt 1 ] && marked $(($(syns syns) - $1))
}
denied() { says "Operation not permitted" in_group timeout 10 rping -c -a "$PEER" -p 7643 -C 1; }
denied_listener() { says "Operation not permitted" in_group timeout 10 rping -s -a "$ADDR" -p 7644 -C 1; }
clean() { rmdir "$GROUP"; nft delete table inet creator; }

run "load the driver on both hosts" both load_driver || exit 1
run "count marked packets" count_syns
run "a process in no such cgroup connects" rping_peer "$PEER" 7640 -C 5
run "its connection has no mark" marked 0
in_cgroup() {
	peer_bg rping rping -s -a "$PEER" -p 7641 -C 5
	peer_listens 7641 && in_group rping -c -a "$PEER" -p 7641 -C 5 && peer_end rping
}
run "a process of the cgroup connects" in_cgroup
run "its connection has the mark that the program gave" marked 1
run "each attempt of a process of the cgroup has the mark" refused 1
python3 -B /tests/net/creator.py deny "$GROUP"
run "a process whose cgroup forbids sockets cannot connect" denied
run "a process whose cgroup forbids sockets cannot listen" denied_listener
clean
