#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# time: virtual
# pairs: rsiw,*
#
# The network loses, delays, reorders, repeats and corrupts packets in both directions, and then is down for a
# while. All data arrive as they were sent. ROUNDS: random operations; DOWN: seconds without a link.

. /tests/lib.sh
. /tests/device/lib
: "${DOWN:=5}" "${ROUNDS:=$([ "$RSIW_KERNEL" = stock ] && echo 30 || echo 8)}"
plan 9

emulate() { modprobe sch_netem && tc qdisc replace dev eth0 root netem limit 20000 "$@"; }
plain() { tc qdisc del dev eth0 root; }

# count COUNTER: its sum over both hosts. "dropped" is the number of packets that the emulation has dropped; all
# others are counters of nstat, and A+B+C is the sum of several.
count() {
	local here there
	if [ "$1" = dropped ]; then
		here=(tc -s qdisc show dev eth0)
	else
		IFS=+ read -ra here <<<"nstat+-asz+$1"
	fi
	there=$(peer "${here[@]}") && { echo "$there" && "${here[@]}"; } |
		awk '/dropped/ { sub(/.*dropped /, ""); n += $1; next } /^[A-Z][A-Za-z]+ / { n += $2 } END { print n + 0 }'
}
# disturbed COUNTER,... COMMAND...: the command succeeds, and each counter grows meanwhile, which shows that the
# network was as bad as it should be.
disturbed() {
	local names name
	local -A before
	IFS=, read -ra names <<<"$1"
	shift
	for name in "${names[@]}"; do before[$name]=$(count "$name") || return; done
	"$@" || return
	for name in "${names[@]}"; do
		echo "$name: $(($(count "$name") - ${before[$name]}))"
		[ "$(count "$name")" -gt "${before[$name]}" ] || { echo "the network was not disturbed"; return 1; }
	done
}

# stressed COUNTER,... NETEM-OPTION...: random operations in both directions, whose data are compared.
stressed() {
	both emulate "${@:2}" || return
	disturbed "$1" rsiw-verbs client -t stress -n "$ROUNDS" -s "${RSIW_SEED:-1}" "$PEER"
}
# pinged COUNTER,... NETEM-OPTION...: the same by rping, which has no TCP connection beside that of RDMA.
pinged() {
	both emulate "${@:2}" || return
	disturbed "$1" rping_peer "$PEER" 7401 -C $((ROUNDS + 10)) -S 30000 -V
}
# amid_rping PORT COMMAND...: the command, in the middle of a transfer whose data are compared.
amid_rping() {
	local port=$1
	shift
	peer_bg ping rping -s -a "$PEER" -p "$port" -S 30000 -V
	server_up "$port" || return
	started client rping -c -a "$PEER" -p "$port" -S 30000 -V
	moves 5 10 || return
	"$@" || return
	# TCP retransmits at its own times: it may wait up to twice as long as the link was down.
	moves 5 $((3 * DOWN)) || return
	pkill -INT -x rping
	! grep -i mismatch "$WORK/client" "$WORK/ping"
}
# Nothing moves over the link any more, once what was under way has filled the buffers. The time
# itself is what the transfer survives.
still() {
	local before
	nap "$DOWN"
	before=$(tx_messages "$DEV")
	nap 0.5
	! more_than "$DEV" "$before" || { echo "data move over a link that is down"; return 1; }
}
down() { ip link set eth0 down && still && ip link set eth0 up && wait_for 10 device_active "$DEV"; }
peer_down() { peer ip link set eth0 down && still && peer ip link set eth0 up; }

run "load the driver on both hosts" both load_driver || exit 1
# A burst of losses lasts for a number of packets. So TCP has to retransmit each second, not after 0.2, 0.4 ...
# 25.6 seconds.
both sysctl -q net.ipv4.tcp_rto_max_ms=1000 || exit 1
peer_bg server rsiw-verbs server "$PEER"
server_up 18515 || exit 1
LIMIT=$((ROUNDS + 30)) run "data survive a network that loses one packet of fifty" stressed dropped,TcpRetransSegs loss 2%
both plain
LIMIT=$((ROUNDS + 30)) run "data survive a network that loses bursts of packets" stressed dropped,TcpRetransSegs loss gemodel 1% 50%
both plain
LIMIT=$((ROUNDS + 30)) run "data survive a network that delays and reorders packets" stressed TcpExtTCPOFOQueue delay 15ms 10ms
both plain
LIMIT=$((ROUNDS + 30)) run "data survive a network that duplicates packets" stressed TcpExtTCPDSACKOldSent+TcpExtTCPDSACKOfoSent duplicate 10%
both plain
LIMIT=$((ROUNDS + 30)) run "data survive loss, delay, reorder and duplicates at once" stressed dropped,TcpRetransSegs,TcpExtTCPOFOQueue delay 3ms 2ms loss 1% duplicate 2% reorder 10%
both plain
peer_kill server
LIMIT=$((ROUNDS + 30)) run "data survive a network that corrupts one packet of ten" pinged TcpInCsumErrors+IpExtInCsumErrors+IpInHdrErrors,TcpRetransSegs corrupt 10%
both plain
both sysctl -q net.ipv4.tcp_rto_max_ms=120000 || exit 1
LIMIT=$((4 * DOWN + 30)) run "a transfer survives a link that is down for a while" amid_rping 7402 down
/tests/guest/addresses "$RSIW_SIDE"
LIMIT=$((4 * DOWN + 30)) run "a transfer survives a peer's link that is down for a while" amid_rping 7403 peer_down
