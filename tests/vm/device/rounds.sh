#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
# pairs: rsiw,*
#
# The end at any time: connections are made, move data and end all the while, of several
# processes; after a moment by chance something ends them all. Processes are killed or told to end, the link
# is deleted, its network device or the whole namespace goes, or the module. Each ender has to be done in
# seconds, and nothing may stay. ROUNDS of that, SEED for others.

. /tests/lib.sh
. /tests/device/lib
: "${ROUNDS:=$([ "$RSIW_KERNEL" = debug ] && echo 7 || echo 14)}" "${SEED:=1}"
plan 5

RANDOM=$SEED
IN=10.9.1.1
ENDERS=(kill_clients kill_servers end_clients delete_link delete_netdev leave_namespace unload)

ns() { ip netns exec ends "$@"; }
# A namespace with a device. It goes with what is in it.
begin() {
	[ -e "/sys/module/$RSIW_DRIVER" ] || load_driver >/dev/null || return
	ip netns add ends && ns ip link set lo up && ns ip link add ends0 type dummy &&
		ns ip addr add $IN/24 dev ends0 && ns ip link set ends0 up &&
		ns rdma link add ends type "$RSIW_DRIVER" netdev ends0
}
# Two that go on for ever, and one that connects again and again. Clients that come before the servers are
# refused and end; "amid" has them wait.
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
# Both of those that go on for ever do: each has sent more than a connection's first words.
under_way() { [ "$(tx_messages ends)" -ge 40 ]; } 2>/dev/null
delete_link() { ns rdma link del ends; }
delete_netdev() { ns ip link del ends0; }
leave_namespace() { ip netns del ends; }
unload() { rmmod "$RSIW_DRIVER"; }

everybody() { pkill -KILL -x rping; pkill -KILL -f 'while :; do rping'; ! pgrep -x rping; }
no_device() { [ ! -e /sys/class/infiniband/ends ]; }
clean() {
	wait_for 10 everybody || { echo "a process does not die"; pgrep -a rping; return 1; }
	wait 2>/dev/null
	ip netns del ends 2>/dev/null
	wait_for 10 no_device || { echo "the device stays"; return 1; }
}
round() {
	local servers=() clients=() before
	begin || { echo "it does not begin"; return 1; }
	# By chance the end is before there are connections; in every other turn it is not.
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

# Milliseconds of the slowest: an ender must not wait for peers.
rounds() {
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
	[ "$most" -lt "$(limit 5)000" ]
}
nothing() { [ "$(resources_of "$DEV")" = "$before" ] && no_sockets 7601 7602 7603; }

run "load the driver" load_driver || exit 1
before=$(resources_of "$DEV")
LIMIT=$((5 * ROUNDS + 60)) run "$ROUNDS ends" rounds
[ -e "/sys/module/$RSIW_DRIVER" ] || load_driver
run "nothing stays" wait_for 10 nothing
run "a connection works" ping "$DEV" "$ADDR" 7610
run "unload the driver" unload_driver
