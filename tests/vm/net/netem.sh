#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# pairs: rsiw,*
#
# A network that loses, delays, reorders, repeats and corrupts packets, in both
# directions, and one that is gone for a while. All data arrive, as they were sent (ROUNDS of
# random operations; DOWN: seconds without a link).

. /tests/lib.sh
. /tests/device/lib
: "${DOWN:=5}" "${ROUNDS:=$([ "$RSIW_KERNEL" = stock ] && echo 30 || echo 8)}"
plan 9

emulate() { modprobe sch_netem && tc qdisc replace dev eth0 root netem limit 20000 "$@"; }
plain() { tc qdisc del dev eth0 root; }

# What the kernels have counted, of both hosts: dropped is what the emulation has, the others are names of
# nstat's, added up where several are joined by +.
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
# disturbed COUNTER,... COMMAND...: the command; the network was as bad as it should be, as each of these says.
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

# stressed COUNTER,... NETEM-OPTION...: random operations with all data compared, in both directions.
stressed() {
	both emulate "${@:2}" || return
	disturbed "$1" rsiw-verbs client -t stress -n "$ROUNDS" -s "${RSIW_SEED:-1}" "$PEER"
}
# As above by rping, which has no connection beside.
pinged() {
	both emulate "${@:2}" || return
	disturbed "$1" pings
}
pings() {
	peer_bg ping rping -s -a "$PEER" -p 7401 -C $((ROUNDS + 10)) -S 30000 -V
	server_up 7401 || return
	rping -c -a "$PEER" -p 7401 -C $((ROUNDS + 10)) -S 30000 -V && peer_end ping
}
# during PORT COMMAND...: in the middle of a transfer that is compared.
during() {
	local port=$1
	shift
	peer_bg ping rping -s -a "$PEER" -p "$port" -S 30000 -V
	server_up "$port" || return
	started client rping -c -a "$PEER" -p "$port" -S 30000 -V
	wait_for 10 moving 5 || return
	"$@" || return
	# TCP asks again at its own times: up to twice as long as the link was down.
	wait_for $((3 * DOWN)) moving 5 || return
	pkill -INT -x rping
	! grep -i mismatch "$WORK/client" "$WORK/ping"
}
# moving MESSAGES: so many in a moment.
moving() {
	local before
	before=$(tx_messages "$DEV")
	sleep 0.5
	[ "$(tx_messages "$DEV")" -ge $((before + $1)) ]
}
# What is under way gets as far as buffers go; then nothing does.
still() {
	sleep "$DOWN"
	! moving 1 || { echo "data move over a link that is down"; return 1; }
}
down() { ip link set eth0 down && still && ip link set eth0 up && wait_for 10 device_active "$DEV"; }
peer_down() { peer ip link set eth0 down && still && peer ip link set eth0 up; }

run "load the driver on both hosts" both load_driver || exit 1
# A burst lasts until enough packets were lost: TCP is to ask again each second, not after 0.2, 0.4 ... 25.6.
both sysctl -q net.ipv4.tcp_rto_max_ms=1000 || exit 1
peer_bg server rsiw-verbs server "$PEER"
server_up 18515 || exit 1
LIMIT=$((ROUNDS + 30)) run "one packet of fifty is lost" stressed dropped,TcpRetransSegs loss 2%
both plain
LIMIT=$((ROUNDS + 30)) run "bursts are lost" stressed dropped,TcpRetransSegs loss gemodel 1% 50%
both plain
LIMIT=$((ROUNDS + 30)) run "packets take 5 to 25 ms, and overtake each other" stressed TcpExtTCPOFOQueue delay 15ms 10ms
both plain
LIMIT=$((ROUNDS + 30)) run "packets come twice" stressed TcpExtTCPDSACKOldSent+TcpExtTCPDSACKOfoSent duplicate 10%
both plain
LIMIT=$((ROUNDS + 30)) run "all of that" stressed dropped,TcpRetransSegs,TcpExtTCPOFOQueue delay 3ms 2ms loss 1% duplicate 2% reorder 10%
both plain
peer_kill server
LIMIT=$((ROUNDS + 30)) run "one packet of ten is corrupted" pinged TcpInCsumErrors+IpExtInCsumErrors+IpInHdrErrors,TcpRetransSegs corrupt 10%
both plain
both sysctl -q net.ipv4.tcp_rto_max_ms=120000 || exit 1
LIMIT=$((4 * DOWN + 30)) run "the link is down" during 7402 down
/tests/guest/addresses "$RSIW_SIDE"
LIMIT=$((4 * DOWN + 30)) run "the peer's link is down" during 7403 peer_down
