#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 300
# kernel: stock
# pairs: rsiw,*
#
# Containers that end with a connection under load leave nothing: no RDMA object, no socket, no memory, and
# they pin neither the device nor the namespace. ROUNDS: how many rounds, each with two containers.

. /tests/lib.sh
. /tests/device/lib
. /tests/container/lib
. /tests/rc/lib
plan 14

PORT=7501
HERE=10.8.1.1 THERE=10.8.1.2
PARENT=/sys/fs/cgroup/libpod_parent

# A namespace with a device of its own, at the other end of a veth.
namespace() {
	ip netns add blue && ip link add veth1 type veth peer name veth2 netns blue &&
		ip addr add "$HERE/24" dev veth1 && ip link set veth1 up &&
		ip -n blue addr add "$THERE/24" dev veth2 && ip -n blue link set veth2 up &&
		ip netns exec blue rdma link add blue type "$RSIW_DRIVER" netdev veth2 && add_device here veth1
}
# start ROUND: a server in the namespace and a client with the host's network, each a container; they move data for ever.
start() {
	local before
	before=$(tx_messages here)
	server=server$1 client=client$1
	contained -d --name "$server" --network ns:/run/netns/blue --device rsiw/device=blue -- \
		rping -s -a "$THERE" -p "$PORT" -V -S 1000 || return
	ip netns exec blue /tests/guest/listens "$PORT" "$(limit 20)" || return
	contained -d --name "$client" --network host --device rsiw/device=here -- \
		rping -c -a "$THERE" -p "$PORT" -C 100000000 -V -S 1000 || return
	wait_for 20 more_than here $((before + 100)) || { podman logs "$client"; return 1; }
}
# How a round ends its containers. When one is killed, the other one's program has to end by itself.
HOW=(server group client)
end() {
	case $1 in
	server) podman kill "$server" >/dev/null ;;
	client) podman kill "$client" >/dev/null ;;
	# As by the kernel: all processes at once, and those that watch them.
	group) echo 1 >"$PARENT/cgroup.kill" && podman rm --force --ignore --time 0 "$server" "$client" >/dev/null ;;
	esac
}
closed() { no_sockets "$PORT" && ! ip netns exec blue ss -Htna "sport = :$PORT" | grep -v TIME-WAIT; }
left_nothing() {
	wait_for 20 no_containers || { containers_left; return 1; }
	wait_for 10 nothing_left || { nothing_left; return 1; }
	wait_for 10 closed || { closed; return 1; }
}
rounds() {
	local round how
	for ((round = 0; round < ${ROUNDS:-3}; round++)); do
		how=${HOW[round % ${#HOW[@]}]}
		if ! start "$round" >/dev/null || ! end "$how" || ! left_nothing; then
			echo "round $round: $how"
			return 1
		fi
	done
	echo "$round rounds"
}
# A container has 200 queue pairs with their memory, and is killed.
with_memory() {
	contained -d -i --name memory --network host --device rsiw/device=here -- /build/bin/limits here qp 1000 200 >/dev/null &&
		wait_for 30 has_memory && podman kill memory >/dev/null && left_nothing
}
has_memory() { podman logs memory 2>&1 | grep -q "^200 good" && [ "$(<"$PARENT/memory.current")" -gt 20000000 ]; }
# What a cgroup that is gone was charged for is its parent's.
given_back() {
	forget
	echo "$(($(<"$PARENT/memory.current") >> 10)) KiB are left"
	[ "$(<"$PARENT/memory.current")" -lt $((6 << 20)) ]
}
freed() { wait_for 10 given_back || { given_back; return 1; }; given_back; }

# Queue pairs that programs connect, in each state; those of a process on the host are their peers.
both_types() {
	rc_add hererc veth1 && ip netns exec blue rdma link add bluerc type rsiw_rc netdev veth2 &&
		wait_for 10 gid_index "$THERE" bluerc && wait_for 10 gid_index "$HERE" hererc
}
each_state() {
	started standing rcstand hererc "$(gid_index "$HERE" hererc)" 16 && listens 18530 || return
	contained -d --name states --network ns:/run/netns/blue --device rsiw/device=bluerc -- \
		/build/bin/rcstand bluerc "$(gid_index "$THERE" bluerc)" 16 "$HERE" >/dev/null || return
	wait_for 30 stands || { podman logs states; return 1; }
	podman kill states >/dev/null && ends standing 40 && [ "$(<"$WORK/standing.status")" = 0 ] && left_nothing && no_connections
}
stands() { podman logs states 2>&1 | grep -q '^stands'; }

run "load the driver" load_driver || exit 1
run "set podman up" podman_set_up || exit 1
run "make a device in a namespace" namespace || exit 1
run "make links of the other type" both_types || exit 1
run "describe the devices for CDI" rsiw-cdi -o /etc/cdi/rsiw.json
LIMIT=$((60 + 40 * ${ROUNDS:-3})) run "containers that are killed under load leave nothing" rounds
LIMIT=60 run "a container with 200 queue pairs is killed and leaves nothing" with_memory
LIMIT=100 run "a container with queue pairs in each state is killed and leaves nothing" each_state
run "all memory of killed containers is given back" freed
run "the other device still moves data" rping_self "$DEV" "$ADDR" 7508
run "the devices that were shared go" eval 'rdma link del here && rdma link del hererc'
# This file tells the runner to leave exclusive mode if the job does not come to its end.
touch /run/rsiw/exclusive
run "the namespace goes" eval 'ip netns del blue && wait_for 10 no_namespaces'
run "nothing is left of any process" nothing_left
run "unload the driver" unload_driver
