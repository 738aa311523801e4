#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 400
# pairs: rsiw,*
# time: virtual
#
# Many clients connect at once to a listener with a short backlog. All of them are established, also
# if the server is busy with something else for a while, beside peers that say nothing and peers that
# do not wait. CROWDS has the words BACKLOG:CLIENTS.

. /tests/lib.sh
. /tests/device/lib
: "${CROWDS:=$([ "$RSIW_KERNEL" = debug ] && echo 10:40 ||
	echo 0:60 1:60 10:60 {1,10,128}:300 {1,10,128}:1000)}"
read -ra crowds <<<"$CROWDS"
plan $((3 * ${#crowds[@]} + 7))

PORT=7600
# A server with a port of its own: serve BACKLOG [HOW [NUMBER]]
serve() {
	PORT=$((PORT + 1))
	peer_bg server sh -c "ulimit -l unlimited; exec backlog server $LO $PORT $*"
	server_up "$PORT"
}
told() { kill -USR1 "$(<"$WORK/server.pid")"; }
# crowd NUMBER: so many clients at once.
crowd() { within "$(limit 100)" backlog client "$LO" "$PORT" "$1"; }
# answered NUMBER ESTABLISHED: they have so many answers, and ESTABLISHED are no rejections.
answered() { crowd "$1" >"$WORK/crowd" 2>&1; cat "$WORK/crowd"; grep -q "^$2 established, $(($1 - $2)) rejected" "$WORK/crowd"; }
all_established() { answered "$1" "$1"; }
requests() { cat "/sys/class/infiniband/$DEV/ports/1/hw_counters/requests"; }
reported() { [ "$(requests)" -ge "$1" ]; }
# The server looks at nothing before the listener has reported as many requests as it may, and clients have waited.
while_busy() {
	local before backlog=$1 clients=$2
	before=$(requests)
	[ "$backlog" -gt 0 ] && [ "$backlog" -lt "$clients" ] || backlog=$clients
	(wait_for 60 reported $((before + backlog)); nap 3; told) &
	all_established "$clients"
}
# Peers that say nothing are there first, more than the listener has slots (SLOTS of listener.rs).
beside_silent() {
	rm -f "$WORK/silent"
	peer_bg silent python3 /tests/cm/crowd.py silent "$LO" "$PORT" 200
	wait_for 60 grep -q silent "$WORK/silent" && all_established "$1"
}
nobody_left() { no_sockets "$PORT" && ! rdma resource show cm_id | grep backlog; }

run "load the driver" load_on_lo || exit 1
ulimit -l unlimited
for crowd in "${crowds[@]}"; do
	backlog=${crowd%:*} clients=${crowd#*:}
	what="$clients clients are established with a backlog of $backlog"
	serve "$backlog"
	LIMIT=110 run "$what" all_established "$clients"
	peer_kill server
	serve "$backlog" told
	LIMIT=110 run "$what by a busy server" while_busy "$backlog" "$clients"
	peer_kill server
	serve "$backlog"
	LIMIT=110 run "$what beside silent peers" beside_silent "$clients"
	peer_kill silent
	peer_kill server
done

serve 10 told
run "peers come and go while the server is busy" python3 /tests/cm/crowd.py gone "$LO" "$PORT" 10
gone_then_told() { (nap 3; told) & all_established 60; }
LIMIT=110 run "60 clients are established after peers that have gone" gone_then_told
peer_kill server

serve 2 mixed
LIMIT=110 run "each kind of answer makes room for another request" answered 60 20
peer_kill server

serve 2 collect 5
LIMIT=110 run "a server gets more requests than its backlog before it answers any" all_established 5
peer_kill server

serve 2 leave
left() { (nap 2; told) & answered 60 0; }
LIMIT=110 run "a listener that goes leaves no client without an answer" left
run "nothing is left" wait_for 30 nobody_left
