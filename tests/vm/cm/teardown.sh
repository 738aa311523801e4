#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# Connections, consumers, devices and the module end in every stage of connection
# setup.

. /tests/lib.sh
. /tests/device/lib
plan 27

wire() { python3 /tests/cm/wire.py "$@"; }
rping_client() { rping -c -C 3 -v -a "$ADDR" -p "$1"; }
held() { wait_for 10 grep -q held "$WORK/$1"; }

run "load the driver" load_driver || exit 1

# The consumer is killed.
peer_bg server rping -s -P -a 0.0.0.0 -p 7190
server_up 7190
peer_bg stages wire responder hold "$ADDR" 7190
run "peers are in every stage before a listener is killed" held stages
kill -9 "$(<"$WORK/server.pid")"
LIMIT=60 run "killing a listener ends the connections of its peers" peer_end stages 60

peer_bg stages wire initiator hold "$ADDR" 7191 rping -c -C 1 -a "$ADDR" -p 7191
run "a consumer waits for a Reply before it is killed" held stages
pkill -9 -x rping
no_more() { ! pgrep -x rping; }
run "a consumer that waits for a Reply can be killed" wait_for 5 no_more
LIMIT=60 run "killing a waiting consumer ends its connection" peer_end stages 60

# The device is removed.
peer_bg server rping -s -P -a 0.0.0.0 -p 7193
server_up 7193
peer_bg stages wire responder hold "$ADDR" 7193
run "peers are in every stage before link del" held stages
peer_bg connect wire initiator hold "$ADDR" 7194 rping -c -C 1 -a "$ADDR" -p 7194
run "a consumer waits for a Reply before link del" held connect
LIMIT=5 run "rdma link del succeeds while connections are set up" rdma link del "$DEV"
run "the device is gone after link del" wait_for 5 device_gone "$DEV"
run "link del ends the connections of peers in every stage" peer_end stages 20
run "link del fails a consumer that waits for a Reply" peer_end connect 20
pkill -9 -x rping

run "re-create the device" add_device "$DEV" eth0
peer_bg server rping -s -C 3 -v -a "$ADDR" -p 7195
server_up 7195
run "rping connects over a re-created device" rping_client 7195
peer_end server

# An administrator ends a connection with ss -K, as any TCP connection: its ends are told, others go on.
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
if [ -e /sys/module/tcp_diag ] || modprobe -q tcp_diag; then
	peer_bg stays honest "$ADDR" 7198
	peer_bg server rping -s -P -a "$ADDR" -p 7197
	server_up 7197
	peer_bg ends rping -c -C 1000000 -a "$ADDR" -p 7197
	wait_for 10 honest_begun stays
	run "ss -K ends a connection" ended_by_ss
	run "ss -K is told to the consumer of the connection" was_told
	run "ss -K of a connection leaves its listener" rping_client 7197
	run "ss -K of a connection leaves other connections" wait_for 10 honest_went_on stays "$(honest_rounds stays)"
	peer_kill stays
else
	for name in "ss -K ends a connection" "ss -K is told to the consumer of the connection" \
		"ss -K of a connection leaves its listener" "ss -K of a connection leaves other connections"; do
		skip "$name" "no CONFIG_INET_DIAG"
	done
fi

# The device, then the module, goes in the middle of traffic.
peer_bg server rping -s -P -a 0.0.0.0 -p 7196
server_up 7196
before=$(tx_messages "$DEV")
peer_bg busy rping -c -C 1000000 -a "$ADDR" -p 7196
run "traffic flows before link del" wait_for 20 more_than "$DEV" $((before + 100))
LIMIT=15 run "rdma link del succeeds in the middle of traffic" rdma link del "$DEV"
pkill -9 -x rping
run "the module unloads after link del amid traffic" wait_for 10 rmmod "$RSIW_DRIVER"

# The module goes while connections are set up.
run "load the driver once more" load_driver
peer_bg server rping -s -P -a 0.0.0.0 -p 7188
server_up 7188
peer_bg stages wire responder hold "$ADDR" 7188
run "peers are in every stage before rmmod" held stages
peer_bg connect wire initiator hold "$ADDR" 7189 rping -c -C 1 -a "$ADDR" -p 7189
run "a consumer waits for a Reply before rmmod" held connect
LIMIT=5 run "the module unloads while connections are set up" rmmod "$RSIW_DRIVER"
run "rmmod ends the connections of peers in every stage" peer_end stages 20
run "rmmod fails a consumer that waits for a Reply" peer_end connect 20
