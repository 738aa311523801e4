#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# cpus: 2
# timeout: 200
#
# What the tools show of a connection that works, whose receiver is stopped, and whose packets get lost.
# Documentation/troubleshooting.md has the output; tools/plots/watching.gp draws what is in the job's output directory.
#
# Each guest has two processors: what stops the receiver needs one while the other is busy with packets.

. /tests/lib.sh
. /tests/device/lib
plan 8

demonstrate() { echo; echo "\$ $*"; bash -c "$*"; }
# sample FILE COUNTER...: writes the time and the device's counters, five times a second, for a minute at most.
sample() {
	local file=$1 line name value end=$((SECONDS + 60))
	shift
	echo "time $*" >"$file"
	while [ "$SECONDS" -lt "$end" ]; do
		line=$EPOCHREALTIME
		for name; do
			read -r value <"/sys/class/infiniband/$DEV/ports/1/hw_counters/$name"
			line+=" $value"
		done
		echo "$line" >>"$file"
		nap 0.2
	done
}
receiver() { peer pkill "-$1" qperf; }
phase() { echo "$EPOCHREALTIME $*" >>"$RSIW_OUT/phases.tsv"; }
# messages SECONDS: Sends of 64 KiB. Unlike perftest, qperf leaves it to the transport to wait for receives.
messages() { qperf -lp 7600 -cm 1 -t "$1" -m 64K "$PEER" rc_bw; }
server() { peer_bg server qperf -lp 7600 && server_up 7600; }

run "load the driver on both hosts" both load_driver recv_wait_ms=10000 || exit 1
run "a server waits for messages" server
peer_bg samples bash -c ". /tests/lib.sh; _planned=-; $(declare -f sample)
	DEV=$PEER_DEV; sample $RSIW_OUT/samples-b.tsv rx_bytes rx_stalls tcp_out_of_order"
sample "$RSIW_OUT/samples-a.tsv" tx_bytes tx_stalls_window tcp_retransmits &
sampler=$!
phase "client starts"
messages 36 >"$WORK/client" 2>&1 &
client=$!
run "messages flow" wait_for 10 more_than "$DEV" 100 || exit 1
nap 5
demonstrate rdma -dd resource show qp link "$DEV/1"
demonstrate ss -Htnie dst "$PEER"
receiver STOP
phase "receiver stopped"
nap 4
demonstrate ss -Htnie dst "$PEER"
receiver CONT
phase "receiver goes on"
nap 4
modprobe sch_netem
tc qdisc replace dev eth0 root netem limit 20000 loss 2%
phase "2 % of packets lost"
nap 4
demonstrate ss -Htnie dst "$PEER"
tc qdisc del dev eth0 root
phase "no loss"
if wait "$client"; then ok "the client ends well"; else not_ok "the client ends well"; fi
demonstrate cat "$WORK/client"
kill "$sampler" 2>/dev/null
peer_kill samples
# Counters that are not 0.
demonstrate "rdma statistic show link $DEV/1 | grep -v ' 0 $'"
peer_sh "$(declare -f demonstrate); demonstrate \"rdma statistic show link $PEER_DEV/1 | grep -v ' 0 \\$'\""
# grows FILE COLUMN: whether the counter is higher at the end of the samples than at their beginning.
grows() { awk -v c="$2" 'NR == 2 { first = $c } { last = $c } END { exit !(last > first) }' "$RSIW_OUT/$1"; }
run "the sender's counters tell that the window was full, and packets were lost" eval \
	'grows samples-a.tsv 3 && grows samples-a.tsv 4'
run "the receiver's, that Sends found no receive, and packets came out of order" eval \
	'grows samples-b.tsv 3 && grows samples-b.tsv 4'

cat >"$WORK/watch.bt" <<'END'
tracepoint:rsiw:rsiw_message_rx { @length[args.opcode] = hist(args.len); }
tracepoint:rsiw:rsiw_fpdu_tx { @fpdu[args.opcode] = hist(args.len); }
tracepoint:rsiw:rsiw_stall { @stalls[args.cause] = count(); }
END
# The programs' own output does not matter here.
bpf() { bpftrace "$WORK/watch.bt" -c "/bin/bash $WORK/traffic" >"$RSIW_OUT/bpftrace"; }
printf '%s\n' '#!/bin/bash' ". /tests/lib.sh" "_planned=-" "$(declare -f messages)" \
	"exec >/dev/null 2>&1" "rping_peer $PEER 7601 -C 20 -S 1000" \
	"messages 3" \
	>"$WORK/traffic"
demonstrate cat "$WORK/watch.bt"
echo "\$ bpftrace watch.bt"
LIMIT=100 run "bpftrace tells of messages" bpf
demonstrate cat "$RSIW_OUT/bpftrace"
run "it has seen them" grep -q '@length' "$RSIW_OUT/bpftrace"
