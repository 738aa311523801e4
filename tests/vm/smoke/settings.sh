#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# interop: yes
# timeout: 200
# time: virtual
#
# Each module parameter that changes the wire: rping moves data both ways. Hosts with rsiw get the
# parameter; siw, which may be at either end, has none. (cm/initiator, cm/responder and wire/large look at
# what is sent.)
#= 5044-4.4-4

. /tests/lib.sh
. /tests/apps/lib

settings=("large_fpdu=0" "peer_to_peer=0" "responder_wait_ms=0" "crc=0"
	"verify_first=1" "recv_wait_ms=0" "keepalive_idle_s=0 user_timeout_ms=0")
# As a responder of MPA revision 1 siw assumes that the consumer makes no Reads (cep->ord is 0). rping makes some.
[ "$RSIW_DRIVER_PEER" = siw ] || settings+=("mpa_revision=1")
plan $((${#settings[@]} * 3))

load_with() { if [ "$RSIW_DRIVER" = rsiw ]; then load_driver "$@"; else load_driver; fi; }
settings_there() {
	both eval "$(declare -f load_with)
		load_with $1"
}

port=7300
for setting in "${settings[@]}"; do
	run "load the driver with $setting" settings_there "$setting" || exit 1
	port=$((port + 1))
	LIMIT=60 run "rping moves data with $setting" try_rping "$PEER" 60000 10 "$port"
	run "unload the driver with $setting" both unload_driver
done
