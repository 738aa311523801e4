#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tries rsiw on this machine, in some seconds: two network namespaces that a veth joins, a link of each kind in
# either, and programs of Debian's rdmacm-utils and ibverbs-utils between them. Run it as root where rsiw is loaded
# (modprobe rsiw). Nothing outside of the two namespaces changes, and they are gone at its end. Results are KTAP; the
# exit status is 0 if no test has failed.

set -u
A=rsiw-test-a B=rsiw-test-b
A4=10.222.0.1 B4=10.222.0.2 B6=fd22::2
WORK=$(mktemp -d) count=0 failed=0

in_a() { ip netns exec "$A" "$@"; }
in_b() { ip netns exec "$B" "$@"; }
clean_up() {
	# The end of a namespace ends its programs' connections and its links.
	jobs -p | xargs -r kill 2>/dev/null
	ip netns del "$A" 2>/dev/null
	ip netns del "$B" 2>/dev/null
	rm -rf "$WORK"
}
trap clean_up EXIT

# result ok|"not ok" NAME [SKIP...]: prints it, with the output of a test that has failed.
result() {
	count=$((count + 1))
	[ "$1" = ok ] || { failed=$((failed + 1)) && sed 's/^/# /' "$WORK/said"; }
	echo "$1 $count $2${3:+ # SKIP $3}"
}
# try NAME COMMAND...: a test. try_with PROGRAM NAME COMMAND...: skipped without the program.
try() {
	local name=$1
	shift
	if "$@" >"$WORK/said" 2>&1; then result ok "$name"; else result "not ok" "$name"; fi
}
try_with() {
	if command -v "$1" >/dev/null; then try "${@:2}"; else result ok "$2" "$1 is not installed"; fi
}
# until_ok COMMAND...: waits for it, for ten seconds.
until_ok() {
	local n
	for ((n = 0; n < 200; n++)); do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.05
	done
	echo "in vain: $*"
	return 1
}
b_listens() { in_b ss -Hltn "sport = :$1" | grep -q .; }

namespaces() {
	ip netns add "$A" && ip netns add "$B" || return
	ip -n "$A" link add eth0 type veth peer name eth0 netns "$B" || return
	ip -n "$A" addr add "$A4/24" dev eth0 && ip -n "$B" addr add "$B4/24" dev eth0 || return
	ip -n "$A" addr add fd22::1/64 dev eth0 nodad && ip -n "$B" addr add "$B6/64" dev eth0 nodad || return
	ip -n "$A" link set eth0 up && ip -n "$B" link set eth0 up
}
active() { "$1" rdma link show "$2/1" | grep -q ACTIVE; }
# links TYPE NAME: one in either namespace, NAME-a and NAME-b.
links() {
	in_a rdma link add "$2-a" type "$1" netdev eth0 && in_b rdma link add "$2-b" type "$1" netdev eth0 || return
	until_ok active in_a "$2-a" && until_ok active in_b "$2-b"
}
# serve PORT COMMAND...: a server in namespace B. client COMMAND...: its client; if that fails, the server ends at once.
serve() {
	in_b timeout 30 "${@:2}" >"$WORK/server" 2>&1 &
	until_ok b_listens "$1" || server_fails
}
client() {
	if in_a timeout 30 "$@" && wait $!; then return; fi
	server_fails
}
server_fails() {
	ip netns pids "$B" | xargs -r kill
	wait $!
	cat "$WORK/server"
	return 1
}
# ping ADDRESS: rping compares what comes back.
ping() { serve 7174 rping -s -a "$1" -C 10 && client rping -c -a "$1" -C 10 -v; }
# The index of the GID that IPv4 addresses have, which end in these four digits.
gid_index() { "$1" grep -rl "ffff:0ade:000$3" "/sys/class/infiniband/$2/ports/1/gids" 2>/dev/null | sed 's/.*\///;q'; }
have_gids() {
	ours=$(gid_index in_a rsiwrc-a 1)
	theirs=$(gid_index in_b rsiwrc-b 2)
	[ -n "$ours" ] && [ -n "$theirs" ]
}
pingpong() {
	local ours theirs
	# A work item of the RDMA core makes them of the addresses.
	until_ok have_gids || return
	serve 18515 ibv_rc_pingpong -d rsiwrc-b -g "$theirs" -c -n 100 &&
		client ibv_rc_pingpong -d rsiwrc-a -g "$ours" -c -n 100 "$B4"
}
removed() {
	in_a rdma link del rsiwcm-a && in_a rdma link del rsiwrc-a && ! in_a rdma link show | grep -e rsiwcm-a -e rsiwrc-a
}
gone() { ! rdma link show | grep -e rsiwcm-b -e rsiwrc-b; }
namespace_ends() { ip netns del "$B" && until_ok gone; }
# The kernel's warnings, and reports of its checks, since the beginning. (Those of rsiw say what a peer has done.)
quiet() { ! dmesg | tail -n "+$((lines + 1))" | grep -E 'WARNING:|BUG:|Oops|general protection|Call Trace'; }

echo "KTAP version 1"
echo "1..9"
if [ "$(id -u)" != 0 ] || ! command -v rdma >/dev/null; then
	echo "Bail out! This has to be root, and needs iproute2's rdma."
	exit 1
fi
[ -d /sys/module/rsiw ] || { echo "Bail out! rsiw is not loaded (modprobe rsiw)."; exit 1; }
lines=$(dmesg | wc -l)
try "two namespaces are joined by a veth" namespaces
try "links of type rsiw are made" links rsiw rsiwcm
try "links of type rsiw_rc are made" links rsiw_rc rsiwrc
try_with rping "rping connects over IPv4 and compares its data" ping "$B4"
try_with rping "rping connects over IPv6 and compares its data" ping "$B6"
try_with ibv_rc_pingpong "ibv_rc_pingpong compares its data, without the RDMA CM" pingpong
try "links are removed" removed
try "the end of a namespace removes its links" namespace_ends
try "the kernel has nothing to report" quiet
[ "$failed" = 0 ]
