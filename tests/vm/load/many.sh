#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# turn: 0/4
#
# Two processes make hundreds of connections (MANY): how fast, how much memory an idle
# one takes on both hosts, whether all work at once for BUSY seconds, and whether
# anything is left of them. Then they make and end as many, STORM times.

. /tests/lib.sh
. /tests/device/lib
: "${MANY:=$([ "$RSIW_KERNEL" = debug ] && echo 60 || echo 500)}" "${BUSY:=3}" "${STORM:=2}"
plan 12

memory() { echo 3 >/proc/sys/vm/drop_caches; awk '/^MemAvailable/ { print $2 }' /proc/meminfo; }
# taken EACH ELSE: since `before`, both hosts have less memory available, by less than EACH KiB for each
# connection and ELSE KiB for other things. (Others take 1.4 to 4.8 MB from the start on, as caches become warm,
# and 0.8 to 2.4 MB later.)
before() { memory >"$WORK/here"; peer_sh "$(declare -f memory); memory" >"$WORK/there"; }
taken() {
	local here there
	here=$(($(<"$WORK/here") - $(memory)))
	there=$(($(<"$WORK/there") - $(peer_sh "$(declare -f memory); memory")))
	echo "KiB each: $((here / MANY)) of $here here, $((there / MANY)) of $there on the peer"
	# The debug kernel keeps freed memory in quarantine; there the runner looks for leaks.
	[ "$RSIW_KERNEL" != debug ] || return 0
	[ "$here" -lt $(($1 * MANY + $2)) ] && [ "$there" -lt $(($1 * MANY + $2)) ]
}
go_on() { echo >"$WORK/in"; }
# client_says PATTERN SECONDS
client_says() { wait_for "$2" grep -q "$1" "$WORK/client"; local status=$?; tail -n 1 "$WORK/client"; return "$status"; }
established() { client_says "established $MANY" $((MANY / 10 + 60)) && wait_for 10 grep -q "established $MANY" "$WORK/server"; }
answered() { go_on; client_says "answered .* $MANY connections to the end" $((BUSY + 60)); }
closed() { go_on; client_says closed $((MANY / 20 + 30)) && peer_end server 20; }
no_connections() {
	local qps
	qps=$(rdma resource show qp) && ! grep many <<<"$qps" && no_sockets 7501
}

serve_many() {
	peer_bg server sh -c "ulimit -l unlimited; many server $PEER 7501 $MANY"
	server_up 7501
}
# Each connection sends one message when all are established, and ends.
storm() {
	local i
	for ((i = 0; i < STORM; i++)); do
		serve_many || return
		echo | many client "$PEER" 7501 "$MANY" 64 >"$WORK/client" 2>&1
		grep established "$WORK/client" || { cat "$WORK/client" "$WORK/server"; return 1; }
		peer_end server 30 >/dev/null || { cat "$WORK/server"; return 1; }
	done
}

run "load the driver on both hosts" both load_driver || exit 1
ulimit -l unlimited
# Otherwise free pages would stay in lists of each processor.
both sysctl -q vm.percpu_pagelist_high_fraction=100000
before
serve_many
mkfifo "$WORK/in"
sleep 1000 >"$WORK/in" &
many client "$PEER" 7501 "$MANY" 32 "$BUSY" <"$WORK/in" >"$WORK/client" 2>&1 &
LIMIT=$((MANY / 10 + 80)) run "$MANY connections are established" established || { cat "$WORK/server"; exit 1; }
run "an idle connection takes less than 32 KiB" taken 32 2048
LIMIT=$((BUSY + 80)) run "$MANY connections work at once" answered
LIMIT=$((MANY / 20 + 60)) run "$MANY connections close" closed
wait_for 30 no_connections
run "closed connections give their memory back" taken 0 8192
before
LIMIT=$((STORM * (MANY / 10 + 60))) run "$MANY connections come and go, $STORM times" storm
run "rping connects after the storm" rping_peer "$PEER" 7502 -C 20 -V
wait_for 30 no_connections
run "no connection is left on this host" no_connections
run "no connection is left on the peer" peer_sh "$(declare -f no_connections no_sockets); no_connections"
run "connections that came and went keep no memory" taken 0 4096
run "unload the drivers" both unload_driver
both sysctl -q vm.percpu_pagelist_high_fraction=0
