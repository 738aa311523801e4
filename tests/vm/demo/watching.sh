#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
#
# What the tools show of a connection that works, of one whose receiver is stopped, and of one whose packets get
# lost. Documentation/troubleshooting.md has the output; tools/plots/watching.gp draws samples-*.tsv of the job's
# output directory.

. /tests/lib.sh
plan 7

demonstrate() { echo; echo "\$ $*"; "$@"; }
# sample FILE COUNTER...: writes the time and the device's counters, five times a second, for half a minute.
sample() {
	local file=$1 line name value end=$((SECONDS + 30))
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
receiver() { peer pkill "-$1" ib_send_bw; }
begins() { wait_for 10 eval '[ "$(cat /sys/class/infiniband/'"$DEV"'/ports/1/hw_counters/tx_op_sends)" -gt 100 ]'; }
phase() { echo "$EPOCHREALTIME $*" >>"$RSIW_OUT/phases.tsv"; }
messages() { peer_bg "$1" ib_send_bw -R -p "$2" -d "$PEER_DEV" -s 65536 -D "$3" && server_up "$2"; }

run "load the driver on both hosts" both load_driver recv_wait_ms=10000 || exit 1
run "a server waits for messages" messages server 7600 24
peer_bg samples bash -c ". /tests/lib.sh; _planned=-; $(declare -f sample)
	DEV=$PEER_DEV; sample $RSIW_OUT/samples-b.tsv rx_bytes rx_stalls tcp_out_of_order"
sample "$RSIW_OUT/samples-a.tsv" tx_bytes tx_stalls_window tcp_retransmits &
sampler=$!
phase "client starts"
ib_send_bw -R -p 7600 -d "$DEV" -s 65536 -D 24 "$PEER" >"$WORK/client" 2>&1 &
client=$!
run "messages flow" begins || exit 1
nap 5
demonstrate rdma -dd resource show qp link "$DEV/1"
demonstrate ss -tnie dst "$PEER"
phase "receiver stopped"
receiver STOP
nap 4
demonstrate ss -tnie dst "$PEER"
phase "receiver goes on"
receiver CONT
nap 4
phase "2 % of packets lost"
modprobe sch_netem
tc qdisc replace dev eth0 root netem limit 20000 loss 2%
nap 4
demonstrate ss -tnie dst "$PEER"
tc qdisc del dev eth0 root
phase "no loss"
if wait "$client"; then ok "the client ends well"; else not_ok "the client ends well"; fi
demonstrate cat "$WORK/client"
kill "$sampler" 2>/dev/null
peer_kill samples
demonstrate rdma statistic show link "$DEV/1"
peer_sh "$(declare -f demonstrate); demonstrate rdma statistic show link $PEER_DEV/1"

cat >"$WORK/watch.bt" <<'END'
tracepoint:rsiw:rsiw_message_rx { @length[args.opcode] = hist(args.len); }
tracepoint:rsiw:rsiw_fpdu_tx { @fpdu[args.opcode] = hist(args.len); }
tracepoint:rsiw:rsiw_stall { @stalls[args.qpn, args.cause] = count(); }
END
# The programs' own output does not matter here.
bpf() { bpftrace "$WORK/watch.bt" -c "/bin/bash $WORK/traffic" >"$RSIW_OUT/bpftrace"; }
printf '%s\n' '#!/bin/bash' ". /tests/lib.sh" "_planned=-" "$(declare -f messages)" \
	"exec >/dev/null 2>&1" "rping_peer $PEER 7601 -C 20 -S 1000" \
	"messages bw 7602 3 && ib_send_bw -R -p 7602 -d $DEV -s 65536 -D 3 $PEER" \
	>"$WORK/traffic"
demonstrate cat "$WORK/watch.bt"
echo "\$ bpftrace watch.bt"
LIMIT=100 run "bpftrace tells of messages" bpf
demonstrate cat "$RSIW_OUT/bpftrace"
run "it has seen them" grep -q '@length' "$RSIW_OUT/bpftrace"
