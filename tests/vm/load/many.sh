#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
#
# Connections by the hundred (MANY) between two processes: how fast they are
# made, what memory an idle one takes on both hosts, that each works, for BUSY
# seconds all at once, and that nothing is left of them. Then STORM times as many that
# only come and go.

. /tests/lib.sh
: "${MANY:=$([ "$RSIW_KERNEL" = debug ] && echo 60 || echo 500)}" "${BUSY:=3}" "${STORM:=2}"
plan 12

memory() { echo 3 >/proc/sys/vm/drop_caches; awk '/^MemAvailable/ { print $2 }' /proc/meminfo; }
# taken EACH ELSE: what has been taken here, and there, since `before`, in KiB: less than so much for each
# connection, and so much else, which what others do in a host takes (measured: 1.4 to 4.8 MB from the start
# on, for caches that have become warm; 0.8 to 2.4 MB later).
before() { memory >"$WORK/here"; peer_sh "$(declare -f memory); memory" >"$WORK/there"; }
taken() {
	local here there
	here=$(($(<"$WORK/here") - $(memory)))
	there=$(($(<"$WORK/there") - $(peer_sh "$(declare -f memory); memory")))
	echo "KiB each: $((here / MANY)) of $here here, $((there / MANY)) of $there on the peer"
	# What was freed stays in quarantine on the debug kernel, where the runner looks for lost memory.
	[ "$RSIW_KERNEL" != debug ] || return 0
	[ "$here" -lt $(($1 * MANY + $2)) ] && [ "$there" -lt $(($1 * MANY + $2)) ]
}
go_on() { echo >"$WORK/in"; }
says() { wait_for "$2" grep -q "$1" "$WORK/client"; local status=$?; tail -n 1 "$WORK/client"; return "$status"; }
established() { says "established $MANY" $((MANY / 10 + 60)) && wait_for 10 grep -q "established $MANY" "$WORK/server"; }
answered() { go_on; says "answered .* $MANY connections to the end" $((BUSY + 60)); }
closed() { go_on; says closed $((MANY / 20 + 30)) && peer_end server 20; }
no_sockets() { [ "$(ss -Htan | grep -c :7501)" = "$(ss -Htan | grep TIME-WAIT | grep -c :7501)" ]; }
nothing_left() {
	local qps
	qps=$(rdma resource show qp) && ! grep many <<<"$qps" && no_sockets
}

serve() {
	peer_bg server sh -c "ulimit -l unlimited; many server $PEER 7501 $MANY"
	server_up 7501
}
# Each has one message when all are there, and ends.
storm() {
	local i
	for ((i = 0; i < STORM; i++)); do
		serve || return
		echo | many client "$PEER" 7501 "$MANY" 64 >"$WORK/client" 2>&1
		grep established "$WORK/client" || { cat "$WORK/client" "$WORK/server"; return 1; }
		peer_end server 30 >/dev/null || { cat "$WORK/server"; return 1; }
	done
}
works() {
	peer_bg ping rping -s -a "$PEER" -p 7502 -C 20 -V
	server_up 7502 && rping -c -a "$PEER" -p 7502 -C 20 -V && peer_end ping 10
}

run "load the driver on both hosts" both load_driver || exit 1
ulimit -l unlimited
# Or memory that was given back would stay in lists of each processor.
both sysctl -q vm.percpu_pagelist_high_fraction=100000
before
serve
mkfifo "$WORK/in"
sleep 1000 >"$WORK/in" &
many client "$PEER" 7501 "$MANY" 32 "$BUSY" <"$WORK/in" >"$WORK/client" 2>&1 &
LIMIT=$((MANY / 10 + 80)) run "all are established" established || { cat "$WORK/server"; exit 1; }
run "an idle one takes less than 32 KiB" taken 32 2048
LIMIT=$((BUSY + 80)) run "all work at once" answered
LIMIT=$((MANY / 20 + 60)) run "all close" closed
wait_for 30 nothing_left
run "their memory is given back" taken 0 8192
before
LIMIT=$((STORM * (MANY / 10 + 60))) run "as many that come and go, $STORM times" storm
run "a connection works" works
wait_for 30 nothing_left
run "nothing is left here" nothing_left
run "nothing is left there" peer_sh "$(declare -f nothing_left no_sockets); nothing_left"
run "those that came and went took none" taken 0 4096
run "unload the drivers" both unload_driver
both sysctl -q vm.percpu_pagelist_high_fraction=0
