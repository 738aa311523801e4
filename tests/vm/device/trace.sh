#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 200
# pairs: rsiw,*
#
# The tracepoints of the driver: each tells what happens, and the tools of Debian's packages read them.

. /tests/lib.sh
. /tests/device/lib
plan 19

T=/sys/kernel/tracing
mountpoint -q $T || mount -t tracefs none $T

events=(cm_stage mpa_frame fpdu_tx fpdu_rx message_rx refused terminate stall qp_state tx)
exist() {
	local event
	for event in "${events[@]}"; do [ -e "$T/events/rsiw/rsiw_$event/format" ] || { echo "no $event"; return 1; }; done
}
# traced COMMAND...: runs it while all events are traced, into $WORK/trace.
traced() {
	local status
	echo 0 >$T/tracing_on
	echo >$T/trace
	echo 8192 >$T/buffer_size_kb
	echo 1 >$T/events/rsiw/enable
	echo 1 >$T/tracing_on
	"$@"
	status=$?
	echo 0 >$T/tracing_on
	echo 0 >$T/events/rsiw/enable
	grep -v '^#' $T/trace >"$WORK/trace"
	wc -l "$WORK/trace"
	return "$status"
}
# tells REGEX [AT LEAST]: so many lines of the trace.
tells() {
	local count
	count=$(grep -cE "$1" "$WORK/trace")
	echo "$count: $1"
	grep -E "$1" "$WORK/trace" | head -n 2
	[ "$count" -ge "${2:-1}" ]
}
pings() { rping_peer "$ADDR" 7400 -C 10; }
stages() {
	tells "rsiw_cm_stage: dev=$DEV conn=[0-9]+ from=connecting to=await-reply" &&
		tells "rsiw_cm_stage: .* from=await-request to=" && tells "rsiw_cm_stage: .* to=requested" &&
		tells "rsiw_cm_stage: .* from=requested to=streaming" && tells "rsiw_cm_stage: .* from=streaming to=draining" 2 &&
		tells "rsiw_cm_stage: .* to=closed" 2
}
frames() {
	tells "rsiw_mpa_frame: dev=$DEV conn=[0-9]+ out Request flags=0x[0-9a-f]+ revision=2 private_data=[0-9]+" &&
		tells "rsiw_mpa_frame: .* in Request" && tells "rsiw_mpa_frame: .* out Reply" &&
		tells "rsiw_mpa_frame: .* in Reply"
}
states() {
	tells "rsiw_qp_state: dev=$DEV qpn=[0-9]+ from=IDLE to=RTS" 2 && tells "rsiw_qp_state: .* from=RTS to=CLOSING" &&
		tells "rsiw_qp_state: .* to=ERROR" 2
}
# Both ends are here: each message is seen twice.
sent() {
	tells "rsiw_fpdu_tx: dev=$DEV qpn=[0-9]+ Send len=[0-9]+ count=1" 40 && tells "rsiw_fpdu_tx: .* Read-Request" 10 &&
		tells "rsiw_fpdu_tx: .* Read-Response" 10 && tells "rsiw_fpdu_tx: .* Write" 10
}
received() {
	tells "rsiw_message_rx: dev=$DEV qpn=[0-9]+ Send len=16" 40 && tells "rsiw_message_rx: .* Read-Request len=64" 10 &&
		tells "rsiw_message_rx: .* Read-Response len=64" 10 && tells "rsiw_message_rx: .* Write" 10
}
placed() { tells "rsiw_fpdu_rx: dev=$DEV qpn=[0-9]+ Write stag=0x[0-9a-f]+ offset=0x[0-9a-f]+ len=64 last=1" 10; }
runs() { tells "rsiw_tx: .* run" 10 && tells "rsiw_tx: .* sleep" 10; }
# One Read at a time uses all of the IRD.
reads() {
	peer_bg server ib_read_bw -R -p 7401 -d "$DEV" -s 4096 -n 50 -t 32 -o 1
	server_up 7401
	ib_read_bw -R -p 7401 -d "$DEV" -s 4096 -n 50 -t 32 -o 1 "$ADDR" >/dev/null && peer_end server 10 >/dev/null
}
# The worker answers long Reads.
wakes() { tells "rsiw_tx: .* wake" 10; }
stalls() { tells "rsiw_stall: dev=$DEV qpn=[0-9]+ IRD" 10; }
# Peers that write where they may not, and to STags that are none.
broken() { TIME=5 python3 /tests/wire/adversary.py "$DEV" "$ADDR" 7402 fields >"$WORK/broken" 2>&1; }
refusals() {
	grep -oE "rsiw_(refused|terminate).*(layer.*)" "$WORK/trace" | sed "s/qpn=[0-9]* //" | sort | uniq -c
	tells "rsiw_refused: dev=$DEV qpn=[0-9]+ layer=1 type=1 code=0x00" &&
		tells "rsiw_terminate: .* out layer=1 type=1 code=0x00" && tells "rsiw_qp_state: .* from=RTS to=TERMINATE"
}
# With the tools.
by_perf() {
	perf record -q -a -o "$WORK/perf.data" -e 'rsiw:*' -- bash -c ". /tests/lib.sh; rping_peer $ADDR 7403 -C 3" &&
		perf script -i "$WORK/perf.data" >"$WORK/trace" && tells "rsiw:rsiw_message_rx: dev=$DEV" 10
}
by_trace_cmd() {
	trace-cmd record -q -o "$WORK/trace.dat" -e rsiw bash -c ". /tests/lib.sh; rping_peer $ADDR 7404 -C 3" >/dev/null &&
		trace-cmd report -i "$WORK/trace.dat" >"$WORK/trace" && tells "rsiw_fpdu_tx: .*dev=$DEV" 10
}
by_bpftrace() {
	printf '%s\n' '#!/bin/bash' '. /tests/lib.sh' "rping_peer $ADDR 7405 -C 3" >"$WORK/pings"
	bpftrace -e 'tracepoint:rsiw:rsiw_message_rx { @[args.opcode] = count(); }' \
		-c "/bin/bash $WORK/pings" >"$WORK/trace" 2>&1
	cat "$WORK/trace"
	tells "@\[3\]: [0-9]+"
}

run "load the driver" load_driver initiator_wait_ms=0 recv_wait_ms=20 || exit 1
run "all events exist" exist
run "a connection is traced" traced pings
run "stages of connections are told" stages
run "MPA frames are told" frames
run "states of queue pairs are told" states
run "FPDUs sent are told" sent
run "placements are told" placed
run "messages received are told" received
run "runs of tx are told" runs
run "Reads one by one are traced" traced reads
run "stalls are told" stalls
run "wake-ups of the worker of tx are told" wakes
LIMIT=60 run "peers that break rules are traced" traced broken
run "refusals and Terminates are told" refusals
LIMIT=60 run "perf records the events" by_perf
LIMIT=60 run "trace-cmd records the events" by_trace_cmd
if [ -e /sys/kernel/btf/vmlinux ]; then
	LIMIT=100 run "bpftrace counts events" by_bpftrace
else
	skip "bpftrace counts events" "this kernel has no BTF"
fi
echo 1 >$T/events/rsiw/enable
run "unload the driver while its events are traced" unload_driver
# As it was, for jobs after this one.
echo >$T/trace
echo 1 >$T/tracing_on
