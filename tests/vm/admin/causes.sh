#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
# pairs: rsiw,rsiw
#
# Documentation/troubleshooting.md keeps its word: each cause that it has is injected, and the commands of its
# section, run on the hosts that it names, tell it.

. /tests/lib.sh
. /tests/device/lib
plan 26

guide=/build/bin/documents/troubleshooting.md
# commands_of HEADING: the commands of a section, each behind its host.
commands_of() {
	awk -v heading="### $1" '
		/^#/ { inside = $0 == heading }
		inside && /^    / {
			host = $0; sub(/.*# /, "", host)
			sub(/^ */, ""); sub(/ *# (client|server)$/, "")
			print host, $0
		}' "$guide"
}
# tells HEADING REGEX...: what the commands of the section print has each of these. Together they end in time.
tells() {
	local heading=$1 host command regex
	shift
	commands_of "$heading" >"$WORK/commands"
	[ -s "$WORK/commands" ] || { echo "no commands"; return 1; }
	while read -r host command <&3; do
		echo "$host\$ $command"
		case $host in
		client) "${CLIENT[@]}" bash -c "$command" ;;
		server) peer bash -c "$command" ;;
		*) echo "for which host?" ;;
		esac
	done 3<"$WORK/commands" >"$WORK/told" 2>&1
	cat "$WORK/told"
	for regex; do grep -qE "$regex" "$WORK/told" || { echo "does not tell: $regex"; return 1; }; done
}
# Where the client is.
CLIENT=()
# Each heading with three marks has to be told by this job.
told=()
cause() {
	local heading=$1
	told+=("$heading")
	shift
	LIMIT=60 run "$heading: the guide's commands tell it" tells "$heading" "$@"
}
all_told() { diff <(printf '%s\n' "${told[@]}" | sort) <(sed -n 's/^### //p' "$guide" | sort); }
# The counters begin anew, so that none tells of an earlier cause.
fresh() { { both unload_driver && both load_driver initiator_wait_ms=0; } >/dev/null 2>&1; }
# verbs NAME: a test of the verbs test program.
verbs() {
	peer_bg verbs rsiw-verbs server "$PEER"
	server_up 18515 && rsiw-verbs client -s 1 -t "$1" "$PEER"
	peer_kill verbs
}

run "load the driver on both hosts" both load_driver initiator_wait_ms=0 || exit 1

nobody() { ! rping -c -a "$PEER" -p 7180 -C 1; }
run "a client connects to nobody" nobody
cause "Nobody listens" "connects_refused [1-9]" "FAIL port +nobody listens on port 7180"

fresh || exit 1
peer nft 'add table inet t; add chain inet t input { type filter hook input priority 0; policy accept; }
	add rule inet t input tcp dport 7180 drop'
peer_bg server rping -s -a "$PEER" -p 7180
LIMIT=40 run "a client connects through a firewall" nobody
cause "A firewall drops the packets" "connects_timed_out [1-9]" "FAIL port .*does not answer at port 7180" \
	"FAIL firewall .*a rule drops .*7180"
peer_kill server
peer nft flush ruleset

# What a program says there depends on its library: it is not connected.
elsewhere() { ! ip netns exec other rping -c -a "$PEER" -p 7180 -C 1; }
# The mode changes only while there is one namespace.
mode() { wait_for 10 rdma system set netns "$1"; }
CLIENT=(ip netns exec other)
run "namespaces do not share devices" mode exclusive
ip netns add other
run "a client runs in another namespace, which does not see the device" elsewhere
run "Another network namespace, not shared: the guide's commands tell it" \
	tells "Another network namespace" "FAIL link +there is no rsiw device" "netns exclusive"
ip netns del other
run "namespaces share devices" mode shared
ip netns add other
run "a client runs in another namespace" elsewhere
cause "Another network namespace" "FAIL namespace .*rsiw0 belongs to" "netns shared"
ip netns del other
CLIENT=()

fresh || exit 1
run "a client writes to a wrong key" verbs write-bad-key
cause "A wrong key" "rx_faults_access [1-9]" "rsiw0: QP [0-9]+, peer .*STag"

fresh || exit 1
run "a client sends where no receive is posted" verbs late-in-vain
cause "No receive was posted" "rx_stalls [1-9]" "rx_stall_timeouts [1-9]" "rsiw0: QP [0-9]+, peer .*no receive buffer"

fresh || exit 1
crcs() { TIME=6 python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7402 below_ddp >"$WORK/crcs" 2>&1; }
LIMIT=60 run "a peer sends wrong CRCs" crcs
cause "Wrong CRCs" "rx_crc_errors [1-9]" "rsiw0: QP [0-9]+, peer .*CRC"

fresh || exit 1
no_reads() {
	peer_bg server python3 /tests/admin/no_reads.py server "$PEER" 7190
	server_up 7190 || { cat "$WORK/server"; return 1; }
	python3 /tests/admin/no_reads.py client "$PEER" 7190 >"$WORK/no_reads" 2>&1 &
	# IBV_WC_LOC_QP_OP_ERR.
	wait_for 20 grep -q "status 2" "$WORK/no_reads" || { cat "$WORK/no_reads" "$WORK/server"; return 1; }
	cat "$WORK/no_reads"
}
run "a client that agreed on no Reads reads" no_reads
cause "No Read is allowed" "drv_ord 0"
pkill -f no_reads.py
peer_kill server

fresh || exit 1
peer nft 'add table inet t; add chain inet t hole { type filter hook prerouting priority -300; }
	add rule inet t hole meta length 1200-65535 drop'
hole() {
	peer_bg server rping -s -a "$PEER" -p 7180 -S 20000
	server_up 7180
	! timeout "$(limit 15)" rping -c -a "$PEER" -p 7180 -C 1 -S 20000
}
run "large packets vanish" hole
cause "Large packets vanish" "tcp_retransmits [1-9]" "FAIL mtu .*vanish"
peer nft flush ruleset
peer_kill server

fresh || exit 1
peer sh -c 'echo 60000 >/sys/class/infiniband/rsiw0/settings/recv_wait_ms'
sleeps() {
	peer_bg server qperf
	server_up 19765 || return
	qperf -cm 1 -t 120 -m 64K "$PEER" rc_bw >/dev/null 2>&1 &
	wait_for 15 more_than "$DEV" 100 || return
	peer pkill -STOP qperf
	wait_for 15 counted "tx_stalls_window [1-9]" && wait_for 15 peer_sh "$(declare -f counted); counted 'rx_stalls [1-9]'"
}
counted() { rdma statistic show link rsiw0/1 | grep -q "$1"; }
run "the peer's program is stopped" sleeps
cause "The peer sleeps" "tx_stalls_window [1-9]" "rx_stalls [1-9]" "ESTAB +[0-9]+ +[1-9].* 10.7.0.2"
pkill -9 qperf
peer pkill -9 qperf
peer_kill server

fresh || exit 1
short() {
	sysctl -n net.ipv4.tcp_mem >"$WORK/tcp_mem"
	peer_bg server ib_write_bw -R -p 7182 -d "$PEER_DEV" -s 1048576 -n 2000
	server_up 7182 || return
	ib_write_bw -R -p 7182 -d "$DEV" -s 1048576 -n 2000 "$PEER" >/dev/null 2>&1 &
	wait_for 15 more_than "$DEV" 10 || return
	sysctl -qw net.ipv4.tcp_mem="1 2 3"
	wait_for 15 counted "tx_stalls_memory [1-9]"
}
run "TCP's memory is short" short
cause "Memory is short" "tx_stalls_memory [1-9]" "TCP: inuse .* mem [1-9]" "tcp_mem = 1"
sysctl -qw net.ipv4.tcp_mem="$(<"$WORK/tcp_mem")"
pkill -9 ib_write_bw
peer_kill server
run "no cause of the guide is left out" all_told
