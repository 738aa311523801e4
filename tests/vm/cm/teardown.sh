#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# The end of connections, consumers and devices in every stage of connection
# setup.

. /tests/lib.sh
plan 26

wire() { python3 /tests/cm/wire.py "$@"; }
ping() { rping -c -C 3 -v -a "$ADDR" -p "$1"; }
held() { wait_for 10 grep -q held "$WORK/$1"; }
gone() { ! rdma link show "$DEV/1"; }

run "load the driver" load_driver || exit 1

# The consumer dies.
peer_bg server rping -s -P -a 0.0.0.0 -p 7190
server_up 7190
peer_bg stages wire responder hold "$ADDR" 7190
run "peers in every stage" held stages
kill -9 "$(<"$WORK/server.pid")"
LIMIT=60 run "are let go when the consumer is killed" peer_end stages 60

peer_bg stages wire initiator hold "$ADDR" 7191 rping -c -C 1 -a "$ADDR" -p 7191
run "a consumer that waits for a Reply" held stages
pkill -9 -x rping
no_more() { ! pgrep -x rping; }
run "can be killed" wait_for 5 no_more
LIMIT=60 run "and its peer notices" peer_end stages 60

# The device goes.
peer_bg server rping -s -P -a 0.0.0.0 -p 7193
server_up 7193
peer_bg stages wire responder hold "$ADDR" 7193
run "peers in every stage" held stages
peer_bg connect wire initiator hold "$ADDR" 7194 rping -c -C 1 -a "$ADDR" -p 7194
run "and a consumer that waits for a Reply" held connect
LIMIT=5 run "the device can be deleted" rdma link del "$DEV"
run "it is gone" wait_for 5 gone
run "its peers were let go" peer_end stages 20
run "its consumer was told" peer_end connect 20
pkill -9 -x rping

run "a new device" add_device "$DEV" eth0
peer_bg server rping -s -C 3 -v -a "$ADDR" -p 7195
server_up 7195
run "connects" ping 7195
peer_end server

# An administrator ends a connection, as any of TCP's: both ends hear of it, others do not.
ended_by_ss() {
	wait_for 10 somebody_on 7197 || return
	ss -Ktn state established "( dport = :7197 )"
	wait_for 5 nobody_on 7197
}
nobody_on() { ! somebody_on "$1"; }
somebody_on() { ss -Htn state established "( sport = :$1 or dport = :$1 )" | grep .; }
was_told() {
	peer_end ends 10
	grep -q 'DISCONNECT EVENT\|completion failed\|post send error' "$WORK/ends"
}
rounds() { tail -n 1 "$WORK/stays"; }
begun() { [[ $(rounds) =~ ^[0-9]+$ ]]; }
more_rounds() { echo "$(rounds) rounds, before $1"; [ "$(rounds)" -gt "$1" ]; }
if [ -e /sys/module/tcp_diag ] || modprobe -q tcp_diag; then
	peer_bg stays honest "$ADDR" 7198
	peer_bg server rping -s -P -a "$ADDR" -p 7197
	server_up 7197
	peer_bg ends rping -c -C 1000000 -a "$ADDR" -p 7197
	wait_for 10 begun
	run "ss -K ends a connection" ended_by_ss
	run "its consumer was told" was_told
	run "its listener goes on" ping 7197
	run "another connection goes on" wait_for 10 more_rounds "$(rounds)"
	peer_kill stays
else
	for name in "ends a connection" "tells" "leaves the listener" "leaves others"; do
		skip "ss -K $name" "no CONFIG_INET_DIAG"
	done
fi

# The module goes, with connections.
peer_bg server rping -s -P -a 0.0.0.0 -p 7196
server_up 7196
peer_bg busy rping -c -C 1000000 -a "$ADDR" -p 7196
sleep 2
LIMIT=15 run "the device can be deleted in the middle of traffic" rdma link del "$DEV"
pkill -9 -x rping
run "the module can be unloaded" wait_for 10 rmmod "$RSIW_DRIVER"

# The module goes, with connections that are being set up.
run "load the driver once more" load_driver
peer_bg server rping -s -P -a 0.0.0.0 -p 7188
server_up 7188
peer_bg stages wire responder hold "$ADDR" 7188
run "peers in every stage, before rmmod" held stages
peer_bg connect wire initiator hold "$ADDR" 7189 rping -c -C 1 -a "$ADDR" -p 7189
run "a consumer that waits for a Reply, before rmmod" held connect
LIMIT=5 run "the module can be unloaded while connections are set up" rmmod "$RSIW_DRIVER"
run "peers in every stage are let go by rmmod" peer_end stages 20
run "the consumer is told by rmmod" peer_end connect 20
