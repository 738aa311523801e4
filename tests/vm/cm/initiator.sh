#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# time: virtual
# timeout: 240
# pairs: rsiw,*
#
# A consumer connects to a peer that makes its MPA frames itself (initiator.py).

. /tests/lib.sh

cases=(request fall_back_after_reset without_large_after_fin bad_replies too_deep no_rtr_in_common
	rtr_first client_server_reply leaves_after_reply orderly_end end_after_fin)
# Cases with a consumer that prints its events (prog/naming.c).
told=(tried_again rejected reads_excluded reads_excluded_but_rtr)
plan $((${#cases[@]} * 2 + ${#told[@]} * 2 + 23))

# The driver repeats the RTR for a peer that says nothing for this time. The time is long, as a peer may be slow
# here, where five of them begin at once.
INITIATOR_WAIT=$(limit 6)
export INITIATOR_WAIT
run "load the driver" load_driver "initiator_wait_ms=${INITIATOR_WAIT}000" || exit 1
run "have Terminates for bad terms shown" show_optional tx_terminates_terms
# initiator CASE,... ADDRESS PORT
initiator() {
	python3 /tests/cm/wire.py initiator "$1" "$2" "$3" rping -c -C 1 -a "$2" -p PORT
}
# These wait for the time of the RTR. They run beside the others.
peer_bg repeated_rtr initiator repeated_rtr "$ADDR" 7196
peer_bg unrepeated_rtr initiator unrepeated_rtr "$ADDR" 7197
all=$(IFS=,; echo "${cases[*]}")
told_by "cases over IPv4" initiator "$all" "$ADDR" 7200
told_by "cases over IPv6" initiator "$all" "$ADDR6" 7220
# told ADDRESS PORT
told() {
	python3 /tests/cm/wire.py initiator "$(IFS=,; echo "${told[*]}")" "$1" "$2" naming connect "$1" PORT
}
told_by "a consumer's events over IPv4" told "$ADDR" 7250
told_by "a consumer's events over IPv6" told "$ADDR6" 7260
port=7240
# too_deep, reads_excluded and no_rtr_in_common, over each of IPv4 and IPv6.
terms_counted() { [ "$(optional tx_terminates_terms)" = 6 ]; }
run "Terminates for bad terms are counted" terms_counted
run "repeated_rtr" peer_end repeated_rtr 40
run "unrepeated_rtr" peer_end unrepeated_rtr 40
port=$((port + 1))
LIMIT=60 run "marked" python3 /tests/cm/wire.py initiator marked \
	"$ADDR" "$port" rping -c -S 20000 -C 1 -a "$ADDR" -p "$port"
# A send buffer that is smaller than what the peer asks for.
wmem=$(sysctl -n net.ipv4.tcp_wmem)
sysctl -qw net.ipv4.tcp_wmem="4096 16384 65536"
for address in "$ADDR" "$ADDR6"; do
	port=$((port + 1))
	LIMIT=60 run "train_remains, $address" python3 /tests/cm/wire.py initiator train_remains \
		"$address" "$port" rping -c -S 60000 -C 1 -a "$address" -p "$port"
done
sysctl -qw net.ipv4.tcp_wmem="$wmem"

# With MPA revision 1 only.
run "unload the driver" unload_driver
run "load the driver for MPA revision 1" load_driver mpa_revision=1
port=$((port + 1))
LIMIT=60 run "only_revision_1" initiator only_revision_1 "$ADDR" "$port"

# With the client-server model only: a peer that makes its frames itself, and then two ends of the driver's.
run "unload the driver for MPA revision 1" unload_driver
run "load the driver for the client-server model" load_driver peer_to_peer=0
port=$((port + 1))
LIMIT=60 run "only_client_server" initiator only_client_server "$ADDR" "$port"
run "rping connects in the client-server model" rping_peer "$ADDR" $((port + 1)) -C 5 -v

run "unload the driver for the client-server model" unload_driver
run "load the driver for large FPDUs" load_driver
port=$((port + 2))
LIMIT=60 run "marked_large" python3 /tests/cm/wire.py initiator marked_large \
	"$ADDR" "$port" rping -c -S 20000 -C 1 -a "$ADDR" -p "$port"
port=$((port + 1))
LIMIT=60 run "reflected" python3 /tests/cm/wire.py initiator reflected \
	"$ADDR" "$port" rping -c -S 20000 -C 1 -a "$ADDR" -p "$port"
