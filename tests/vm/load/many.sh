#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
#
# Two processes make hundreds of connections (MANY): how fast, how much memory an idle
# one takes on both hosts, whether all of them, or WORKING, work at once for BUSY seconds, and
# whether anything is left of them. Then they make and end as many, STORM times.

. /tests/lib.sh
. /tests/device/lib
: "${MANY:=$([ "$RSIW_KERNEL" = debug ] && echo 60 || echo 500)}" "${WORKING:=$MANY}" "${BUSY:=3}" "${STORM:=2}"
plan 13

# in_meminfo FIELD: KiB, without caches that can be dropped.
in_meminfo() { echo 3 >/proc/sys/vm/drop_caches; awk -v "field=$1:" '$1 == field { print $2 }' /proc/meminfo; }
there() { peer_sh "$(declare -f in_meminfo); in_meminfo $1"; }
# before FIELD notes the field on both hosts; since FIELD sets here and there to what it has grown by since then.
before() { in_meminfo "$1" >"$WORK/$1-here"; there "$1" >"$WORK/$1-there"; }
since() {
	here=$(($(in_meminfo "$1") - $(<"$WORK/$1-here")))
	there=$(($(there "$1") - $(<"$WORK/$1-there")))
}
# taken EACH ELSE: since `before MemAvailable`, both hosts have less memory available, by less than EACH KiB for each
# connection and ELSE KiB for other things. (Others take 1.4 to 4.8 MB from the start on, as caches become warm,
# and 0.8 to 2.4 MB later.)
taken() {
	local here there
	since MemAvailable
	here=$((-here)) there=$((-there))
	echo "KiB each: $((here / MANY)) of $here here, $((there / MANY)) of $there on the peer"
	# The debug kernel keeps freed memory in quarantine; there the runner looks for leaks.
	[ "$RSIW_KERNEL" != debug ] || return 0
	[ "$here" -lt $(($1 * MANY + $2)) ] && [ "$there" -lt $(($1 * MANY + $2)) ]
}
# slabs_taken EACH: since `before Slab` the kernel has more objects, by less than EACH KiB for each connection on the
# average of the two hosts, and 2 MiB for other things (they took 0.1 to 1.1 MiB, as caches become warm). Rings are
# whole pages, and do not count.
slabs_taken() {
	local here there
	since Slab
	echo "bytes each: $((here * 1024 / MANY)) here, $((there * 1024 / MANY)) on the peer"
	[ "$RSIW_KERNEL" != debug ] || return 0
	[ $((here + there)) -lt $((2 * $1 * MANY + 2048)) ]
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
before MemAvailable
before Slab
serve_many
mkfifo "$WORK/in"
sleep 1000 >"$WORK/in" &
many client "$PEER" 7501 "$MANY" 32 "$BUSY" "$WORKING" <"$WORK/in" >"$WORK/client" 2>&1 &
LIMIT=$((MANY / 10 + 80)) run "$MANY connections are established" established || { cat "$WORK/server"; exit 1; }
run "an idle connection takes less than 32 KiB" taken 32 2048
run "it takes less than 15 KiB beside its rings" slabs_taken 15
LIMIT=$((BUSY + 80)) run "$WORKING of $MANY connections work at once, and then the others" answered
LIMIT=$((MANY / 20 + 60)) run "$MANY connections close" closed
wait_for 30 no_connections
run "closed connections give their memory back" taken 0 8192
before MemAvailable
LIMIT=$((STORM * (MANY / 10 + 60))) run "$MANY connections come and go, $STORM times" storm
run "rping connects after the storm" rping_peer "$PEER" 7502 -C 20 -V
wait_for 30 no_connections
run "no connection is left on this host" no_connections
run "no connection is left on the peer" peer_sh "$(declare -f no_connections no_sockets); no_connections"
run "connections that came and went keep no memory" taken 0 4096
run "unload the drivers" both unload_driver
both sysctl -q vm.percpu_pagelist_high_fraction=0
