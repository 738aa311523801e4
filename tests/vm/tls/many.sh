#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 400
# pairs: rsiw,rsiw
#
# Many connections at once (MANY), each with its handshake: all are made, all work, and nothing is left of them.

. /tests/lib.sh
. /tests/tls/lib
# An attempt waits for its turn two minutes. Emulated hosts make six handshakes in a second, and on a busy machine, or
# with the debug kernel, one.
case $RSIW_KERNEL in
debug) : "${MANY:=60}" ;;
*) : "${MANY:=80}" ;;
esac
plan 7

no_tls_sockets() { ! ss -Htn state established "( sport = :7501 or dport = :7501 )" | grep .; }
no_qps() { ! rdma resource show qp | grep many; }
client_says() { wait_for "$2" grep -q "$1" "$WORK/client"; local status=$?; tail -n 1 "$WORK/client"; return "$status"; }
established() { client_says established 140 && grep -q "established $MANY " "$WORK/client"; }
go_on() { echo >"$WORK/in"; }
answered() { go_on; client_says "answered .* $MANY connections to the end" 60; }
closed() { go_on; client_says closed 60 && peer_end server 30; }

run "tlshd starts on both hosts" tls_up || exit 1
run "load the driver on both hosts" both load_driver tls=3 || exit 1
ulimit -l unlimited
mkfifo "$WORK/in"
peer_bg server sh -c "ulimit -l unlimited; many server $PEER 7501 $MANY"
server_up 7501
sleep 1000 >"$WORK/in" &
many client "$PEER" 7501 "$MANY" "$MANY" 2 <"$WORK/in" >"$WORK/client" 2>&1 &
LIMIT=150 run "$MANY connections are made at once" established || exit 1
LIMIT=90 run "each of them carries messages" answered
LIMIT=120 run "all end" closed
run "no socket is left" wait_for 10 no_tls_sockets
run "no queue pair is left" no_qps
