#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# kernel: debug
# pairs: rsiw,*
# allow: Call Trace:|allocation failed
#
# TCP has no memory for the packets of connections that have none under way, so no acknowledgment follows that would
# tell of room. Or tx has none for a page to fill. Tx, and a connection that lingers with the rest of a batch, then try
# again every 20 ms, not all the time, and go on as soon as there is memory. Or TLS has none for a record that has come.

. /tests/lib.sh
. /tests/device/lib
. /tests/fault/lib
. /tests/tls/lib
plan 18

# The packets that TCP sends are of a slab of their own.
SLAB=/sys/kernel/slab/skbuff_fclone_cache/failslab
packets_only() {
	only_ours && echo 1 >"$SLAB" && echo Y >"$DEBUGFS/failslab/cache-filter" &&
		faults task-filter=N "times=$MANY"
}
stalls() { cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/tx_stalls_memory"; }
failures() { failed failslab; }
grown() { [ "$("$1")" -ge "$2" ]; }

# slowly COUNTER [MOST]: the counter grows by at least 10, and by at most twice as many as there are 20 ms in the time
# that this takes (and MOST as a start).
slowly() {
	local before began after most
	before=$("$1") began=${EPOCHREALTIME/./}
	wait_for 10 grown "$1" $((before + 10)) || { echo "it has grown by $(($("$1") - before))"; return 1; }
	# Each 20 ms: a rate takes a time.
	nap 1
	after=$("$1")
	most=$((${2:-10} + (${EPOCHREALTIME/./} - began) / 10000))
	echo "it has grown by $((after - before)), at most $most"
	[ $((after - before)) -le "$most" ]
}
more_rounds() { [ "$(grep -c . "$WORK/honest")" -gt "$1" ]; }
goes_on() {
	local rounds
	rounds=$(grep -c . "$WORK/honest")
	wait_for 20 more_rounds "$rounds"
}

# A batch is sent in part: each second packet finds memory, and none after it. Then its sender ends. If no
# connection has a rest to send, this is tried again.
leaves_a_rest() {
	local try before
	for try in {1..6}; do
		started server rping -s -a "$ADDR" -p 7343 -C 100000 -S 60000 && listens 7343 &&
			started client rping -c -a "$ADDR" -p 7343 -C 100000 -S 60000 &&
			moves 10 10 || return
		before=$(failures)
		faults interval=2 probability=100
		wait_for 10 grown failures $((before + 10)) || return
		faults interval=1
		kill -KILL "$(<"$WORK/client.pid")" "$(<"$WORK/server.pid")"
		wait_for 10 test -e "$WORK/client.status" -a -e "$WORK/server.status" || return
		lingers && return
		faults probability=0
		wait_for 20 no_sockets 7343 || return
		echo "try $try: nothing is left to send"
	done
	return 1
}
# The kernel has ended both programs' queue pairs, and somebody sends still, or all is sent.
lingers() {
	local before
	before=$(failures)
	wait_for 10 eval "grown failures $((before + 3)) || no_sockets 7343"
	grown failures $((before + 3))
}

# pages_of FUNCTION SIZE: only pages that this function of the kernel allocates are not found, from when on the
# probability is not 0. It has SIZE bytes of code at most.
pages_of() {
	local start
	start=$(awk -v name="$1\$" '$3 ~ name { print "0x" $1; exit }' /proc/kallsyms)
	[ -n "$start" ] && faults "require-start=$start" "require-end=$(printf '0x%x' $((start + $2)))" \
		task-filter=N "times=$MANY"
}

run "load the driver" load_driver || exit 1
# A new device has none.
run "restrict faults to pages that tx fills" eval 'only_ours && pages_of ksock_page_alloc 256 && faults probability=100'
run "a connection begins" started honest honest "$ADDR" 7340
LIMIT=40 run "tx tries again at intervals where it finds no page" slowly stalls
faults probability=0
run "tx goes on when there are pages" told honest "^10$" 20
kill -KILL "$(<"$WORK/honest.pid")"
wait_for 20 no_sockets 7340
run "restrict faults to TCP's packets" packets_only
run "a connection moves data" eval 'started honest honest "$ADDR" 7341 && told honest "^10$" 20'
faults probability=100
LIMIT=40 run "tx tries again at intervals where TCP has no memory" slowly stalls
faults probability=0
run "tx goes on when TCP has memory" goes_on
kill -KILL "$(<"$WORK/honest.pid")"
wait_for 20 no_sockets 7341
# Small packets, so that a batch is several of them.
ip link set lo mtu 1500 gso_max_size 8192 gso_ipv4_max_size 8192
LIMIT=90 run "connections linger with the rest of a batch" leaves_a_rest
run "a connection that lingers tries again at intervals" slowly failures 20
faults probability=0
ip link set lo mtu 65536 gso_max_size 65536 gso_ipv4_max_size 65536
run "no socket is left when TCP has memory" wait_for 20 no_sockets 7341 7343

start_tls() { certificates && own_tlshd && echo 3 >"/sys/class/infiniband/$DEV/settings/tls"; }
run "restrict faults to records of TLS" eval 'only_ours && pages_of tls_strp_read_copy 3072'
run "tlshd starts" start_tls
RSIW_TLS=$TLS told_by "a peer whose records find no memory" python3 /tests/fault/parser.py "$ADDR" 7344
run "unload the driver" unload_driver
echo N >"$DEBUGFS/failslab/cache-filter"
echo 0 >"$SLAB"
