#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# Network namespaces end with connections under load, ENDS of them in all, five at a time: one with a server, one
# with a client, one with both, and two that are connected to each other. The peers of the first two are here, and
# are stopped meanwhile in each third round. Nothing may stay: no device, no interface, no socket, no namespace,
# no reference to the module, and, with many namespaces, no memory.

. /tests/lib.sh
. /tests/device/lib
: "${ENDS:=5}"
# With few namespaces one that stays would not stand out from memory that comes and goes.
COUNTED=50
plan $((8 + (ENDS >= COUNTED)))

PING=(rping -S 8000 -p 7950)
FOREVER=(-c -C 100000000)
number=0

# The namespaces of a round have the numbers n to n + 4, and devices d<number>. The first two have a veth to here,
# of the device h<number>; the third has a dummy; the last two a veth between them.
network() {
	local n=$1 i
	for i in 0 1 2 3 4; do echo "netns add e$((n + i))"; done
	for i in 0 1; do
		echo "link add v$((n + i)) type veth peer name d$((n + i)) netns e$((n + i))
			addr add 10.8.$i.1/24 dev v$((n + i))
			link set v$((n + i)) up"
	done
	echo "link add d$((n + 2)) netns e$((n + 2)) type dummy
		link add d$((n + 3)) netns e$((n + 3)) type veth peer name d$((n + 4)) netns e$((n + 4))"
}
address() {
	ip -n "e$1" -batch - <<-END
		addr add 10.8.$2.2/24 dev d$1
		link set d$1 up
		link set lo up
	END
}
# in_e NUMBER COMMAND...: runs a program in that namespace.
in_e() { exec ip netns exec "e$1" "${@:2}" >/dev/null 2>&1; }
begin() {
	local n=$1 i
	network "$n" | ip -batch - || return
	for i in 0 1 2; do address $((n + i)) $i || return; done
	address $((n + 3)) 3 && ip -n "e$((n + 4))" -batch - <<-END || return
		addr add 10.8.3.1/24 dev d$((n + 4))
		link set d$((n + 4)) up
	END
	rdma -b - <<-END || return
		link add h$n type $RSIW_DRIVER netdev v$n
		link add h$((n + 1)) type $RSIW_DRIVER netdev v$((n + 1))
	END
	for ((i = n; i < n + 5; i++)); do
		ip netns exec "e$i" rdma link add "d$i" type "$RSIW_DRIVER" netdev "d$i" || return
	done
	# All servers, and then all clients, as traffic slows down what comes after it. rping -P ends as soon as one
	# device of its connections goes, with its other connections, so each round has a server of its own here.
	"${PING[@]}" -s -P -a 0.0.0.0 >"$WORK/server" 2>&1 &
	outside=($!)
	for i in 0 2 3; do in_e $((n + i)) "${PING[@]}" -s -P -a "10.8.$i.2" & done
	listens 7950 || return
	for i in 0 2 3; do ip netns exec "e$((n + i))" /tests/guest/listens 7950 20 || return; done
	"${PING[@]}" "${FOREVER[@]}" -a 10.8.0.2 >/dev/null 2>&1 &
	outside+=($!)
	in_e $((n + 1)) "${PING[@]}" "${FOREVER[@]}" -a 10.8.1.1 &
	in_e $((n + 2)) "${PING[@]}" "${FOREVER[@]}" -a 10.8.2.2 &
	in_e $((n + 4)) "${PING[@]}" "${FOREVER[@]}" -a 10.8.3.2 &
	for ((i = n; i < n + 5; i++)); do
		wait_for 20 more_than "d$i" 40 || { echo "d$i does not send"; return 1; }
	done
}
gone() {
	local i
	for ((i = $1; i < $1 + 5; i++)); do
		device_gone "d$i" && device_gone "h$i" && [ ! -e "/sys/class/net/v$i" ] || return
	done
}
pids_inside() {
	local i
	for ((i = $1; i < $1 + 5; i++)); do ip netns pids "e$i"; done
}
names_go() { local i; for ((i = $1; i < $1 + 5; i++)); do echo "netns del e$i"; done | ip -batch -; }
# round KIND: 0: the processes end, and then the names of their namespaces go. 1: the other way round. 2: as 0, and
# the peers are stopped, so that they do not take part in the end of their connections.
round() {
	local n=$number began pids=() outside=()
	begin "$n" || return
	[ "$1" != 2 ] || kill -STOP "${outside[@]}" || return
	began=${EPOCHREALTIME/./}
	case $1 in
	1) mapfile -t pids < <(pids_inside "$n") && names_go "$n" && kill -9 "${pids[@]}" ;;
	*) mapfile -t pids < <(pids_inside "$n") && kill -9 "${pids[@]}" && names_go "$n" ;;
	esac || return
	wait_for 20 gone "$n" || { echo "something stays"; rdma link; ip -br link; return 1; }
	took=$(((${EPOCHREALTIME/./} - began) / 1000))
	[ "$1" != 2 ] || kill -CONT "${outside[@]}"
	wait_for 20 ended "${outside[1]}" || { echo "the client here does not end"; return 1; }
	kill -9 "${outside[0]}"
	wait
	wait_for 20 no_connections || { echo "connections stay"; return 1; }
} 2>/dev/null
# all_rounds NAMESPACES KIND: the first round is of that kind.
all_rounds() {
	local i took=0 most=0
	for ((i = $2; number < $1; i++, number += 5)); do
		round $((i % 3)) || { echo "round $i"; cat "$WORK/server"; return 1; }
		[ "$took" -le "$most" ] || most=$took
	done
	echo "$number namespaces; the slowest five were gone after $most ms"
}
no_connections() {
	! ss -Htan '( sport = :7950 or dport = :7950 )' | grep -vE '^(LISTEN|TIME-WAIT)' && [ "$(rdma res show qp | wc -l)" = 0 ]
}
# TCP sockets of all namespaces, also of those that nobody can look into any more.
sockets() { awk '$1 == "TCP:" { print $9 }' /proc/net/sockstat; }
sockets_as_before() { [ "$(sockets)" -le "$sockets" ]; }
no_sockets_stay() { wait_for 10 sockets_as_before; local status=$?; echo "sockets: $sockets before, $(sockets) after"; return $status; }
references() { echo "references: $(refs)" && [ "$(refs)" = "$references" ]; }
refs() { cat "/sys/module/$RSIW_DRIVER/refcnt"; }
# KiB of memory that the kernel cannot reclaim.
kernel_memory() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 0.5
	awk '/^(SUnreclaim|KernelStack|PageTables|Percpu|VmallocUsed):/ { sum += $2 } END { print sum }' /proc/meminfo
}
# A namespace takes more than 100 KiB. Some memory stays with processors, and for objects to come.
memory() {
	local after
	after=$(kernel_memory)
	echo "KiB: $kib before, $after after"
	[ $((after - kib)) -le $((2048 + ENDS * 20)) ]
}

run "load the driver" load_driver || exit 1
# This file tells the runner to leave exclusive mode if the job does not come to its end.
touch /run/rsiw/exclusive
sockets=$(sockets)
# What is made once only is made before the memory is counted.
LIMIT=60 run "the first namespaces end" all_rounds 5 1
references=$(refs) kib=$(kernel_memory)
LIMIT=$((ENDS * 5 + 60)) run "$ENDS namespaces end with connections under load" all_rounds "$ENDS" 2
run "no network namespace stays" wait_for 10 no_namespaces
run "no socket stays in any namespace" no_sockets_stay
run "no reference to the module stays" references
[ "$ENDS" -lt "$COUNTED" ] || run "no memory of the namespaces stays" memory
run "the device moves data after the namespaces" rping_self "$DEV" "$ADDR" 7951
rm -f /run/rsiw/exclusive
run "unload the driver" unload_driver
