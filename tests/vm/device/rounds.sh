#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
# pairs: rsiw,*
#
# Connections end at any time. In each round several processes make connections, move data and end
# connections; after a random moment an "ender" ends all of them: it kills the processes or tells them to end,
# or removes the link, its network device, the namespace or the module. It has to be done in seconds, and
# nothing may stay. ROUNDS: how many. SEED: other moments.

. /tests/lib.sh
. /tests/device/lib
: "${ROUNDS:=$([ "$RSIW_KERNEL" = debug ] && echo 7 || echo 14)}" "${SEED:=1}"
plan 5

RANDOM=$SEED
IN=10.9.1.1
ENDERS=(kill_clients kill_servers end_clients delete_link delete_netdev leave_namespace unload)

ns() { ip netns exec ends "$@"; }
# Makes a namespace with a device.
begin() {
	[ -e "/sys/module/$RSIW_DRIVER" ] || load_driver >/dev/null || return
	ip netns add ends && ns ip link set lo up && ns ip link add ends0 type dummy &&
		ns ip addr add $IN/24 dev ends0 && ns ip link set ends0 up &&
		ns rdma link add ends type "$RSIW_DRIVER" netdev ends0
}
# traffic amid|any: two connections that go on for ever, and a client that connects again and again. With
# "any", a client may come before its server, is refused and ends; with "amid" it waits for the server.
traffic() {
	local port
	for port in 7601 7602 7603; do
		ns rping -s -P -a $IN -p $port >/dev/null 2>&1 &
		servers+=($!)
	done
	for port in 7601 7602; do
		[ "$1" != amid ] || ns /tests/guest/listens "$port" "$(limit 10)" || return
		ns rping -c -C 1000000 -S 30000 -a $IN -p $port >/dev/null 2>&1 &
		clients+=($!)
	done
	ns sh -c "while :; do rping -c -C 1 -a $IN -p 7603; done" >/dev/null 2>&1 &
	clients+=($!)
}
kill_clients() { kill -KILL "${clients[@]}"; }
kill_servers() { kill -KILL "${servers[@]}"; }
end_clients() { kill -TERM "${clients[@]}"; }
# The connections that go on for ever have sent more than the few messages of connection setup.
under_way() { [ "$(tx_messages ends)" -ge 40 ]; } 2>/dev/null
delete_link() { ns rdma link del ends; }
delete_netdev() { ns ip link del ends0; }
leave_namespace() { ip netns del ends; }
unload() { rmmod "$RSIW_DRIVER"; }

kill_all() { pkill -KILL -x rping; pkill -KILL -f 'while :; do rping'; ! pgrep -x rping; }
clean() {
	wait_for 10 kill_all || { echo "a process does not die"; pgrep -a rping; return 1; }
	wait 2>/dev/null
	ip netns del ends 2>/dev/null
	wait_for 10 device_gone ends || { echo "the device stays"; return 1; }
}
round() {
	local servers=() clients=() before
	begin || { echo "it does not begin"; return 1; }
	# With "any", the end may come before there are connections.
	traffic "$2" || { echo "nobody listens"; return 1; }
	if [ "$2" = amid ]; then
		wait_for 20 under_way || { echo "there is no traffic"; return 1; }
	fi
	nap "0.$(printf '%02d' $((RANDOM % 70)))"
	! under_way || amid[$1]=$((${amid[$1]:-0} + 1))
	before=${EPOCHREALTIME/./}
	"$1" || { echo "$1 failed"; return 1; }
	took=$(((${EPOCHREALTIME/./} - before) / 1000))
	clean
} 2>/dev/null

# All of them. Prints the milliseconds of the slowest ender: none must wait for peers.
all_rounds() {
	local i ender took=0 most=0 when=(amid any)
	declare -A count amid
	for ((i = 0; i < ROUNDS; i++)); do
		ender=${ENDERS[i % ${#ENDERS[@]}]}
		round "$ender" "${when[i / ${#ENDERS[@]} % 2]}" || { echo "round $i, $ender"; return 1; }
		count[$ender]=$((${count[$ender]:-0} + 1))
		[ "$took" -le "$most" ] || most=$took
	done
	for ender in "${!count[@]}"; do
		echo "$ender: ${count[$ender]}, amid traffic ${amid[$ender]:-0}"
		[ "${amid[$ender]:-0}" -gt 0 ] || { echo "never amid traffic"; return 1; }
	done
	echo "the slowest took $most ms"
	[ "$most" -lt "$(limit 9)000" ]
}
as_before() { [ "$(resources_of "$DEV")" = "$before" ] && no_sockets 7601 7602 7603; }

run "load the driver" load_driver || exit 1
before=$(resources_of "$DEV")
LIMIT=$((5 * ROUNDS + 60)) run "connections end at any time, in $ROUNDS rounds" all_rounds
[ -e "/sys/module/$RSIW_DRIVER" ] || load_driver
run "no object and no socket stays after the rounds" wait_for 10 as_before
run "the device moves data after the rounds" rping_self "$DEV" "$ADDR" 7610
run "unload the driver" unload_driver
