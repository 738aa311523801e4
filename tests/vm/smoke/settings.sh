#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 200
#
# Module parameters that change what goes over the wire, each with data both ways: on rsiw's hosts, beside
# siw in either role, too, which knows none of them. (What is sent then: cm/initiator, cm/responder,
# wire/large.)

. /tests/lib.sh

settings=("large_fpdu=1" "peer_to_peer=0" "responder_wait=0" "crc=0"
	"verify_first=1" "recv_wait_ms=0" "keepalive_idle_s=0 user_timeout_ms=0")
# As a responder of revision 1 siw takes it that the consumer makes no Reads (cep->ord is 0), which rping does.
[ "$RSIW_DRIVER_PEER" = siw ] || settings+=("mpa_revision=1")
plan $((${#settings[@]} * 3))

load_with() { if [ "$RSIW_DRIVER" = rsiw ]; then load_driver "$@"; else load_driver; fi; }
settings_there() {
	both eval "$(declare -f load_with)
		load_with $1"
}
gone() { both unload_driver; }

# Data that both ends compare.
ping() {
	[ ! -e "$WORK/server.pid" ] || peer_kill server
	peer_bg server rping -s -a "$PEER" -p "$1" -C 10 -S 60000 -V -v
	server_up "$1" || return
	within "$(limit 15)" rping -c -a "$PEER" -p "$1" -C 10 -S 60000 -V -v >"$WORK/client" 2>&1 ||
		{ cut -c1-100 "$WORK/client" "$WORK/server"; return 1; }
	# To be disconnected is an error to the server.
	peer_end server 10 >/dev/null
	local pings=("$(grep -c '^ping data' "$WORK/client")" "$(grep -c 'server ping data' "$WORK/server")")
	echo "the client has had ${pings[0]} pings, the server ${pings[1]}"
	[ "${pings[*]}" = "10 10" ] || { cut -c1-100 "$WORK/client" "$WORK/server"; return 1; }
}

port=7300
for setting in "${settings[@]}"; do
	run "$setting: load the driver" settings_there "$setting" || exit 1
	port=$((port + 1))
	LIMIT=60 run "$setting: rping" patiently ping "$port"
	run "$setting: unload the driver" gone
done
