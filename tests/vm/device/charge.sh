#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# What a process makes is charged to its cgroup, and is given back. (The debug
# kernel has no memory cgroups.)

. /tests/lib.sh
. /tests/device/lib
plan 12

GROUP=/sys/fs/cgroup/rsiw

# A group that may have so much memory.
group() {
	echo "+memory +rdma" >/sys/fs/cgroup/cgroup.subtree_control || return
	mkdir -p "$GROUP"
	echo "$1" >"$GROUP/memory.max"
}
in_group() { sh -c 'echo $$ >'"$GROUP"'/cgroup.procs; exec "$@"' sh "$@"; }
# refused OBJECT SIZE LEAST MOST: with ENOMEM, having between so many; nobody was killed. (Small ones
# leave nothing for the program itself, which is killed then.)
refused() {
	local said before kills
	kills=$(grep -h oom_kill "$GROUP/memory.events")
	said=$(in_group limits "$DEV" "$1" "$2" </dev/null 2>&1)
	echo "$said"
	[ "$kills" = "$(grep -h oom_kill "$GROUP/memory.events")" ] || { echo "killed"; return 1; }
	[[ $said == *"Cannot allocate memory"* ]] && [ "${said%% *}" -ge "$3" ] && [ "${said%% *}" -le "$4" ]
}
# charged OBJECT SIZE COUNT: the group has at least as much as was mapped.
charged() {
	local before mapped now
	mkfifo "$WORK/in.$1"
	wait_for 10 given_back >/dev/null || { given_back; return 1; }
	before=$(<"$GROUP/memory.current")
	in_group limits "$DEV" "$1" "$2" "$3" <"$WORK/in.$1" >"$WORK/$1" 2>&1 &
	exec 9>"$WORK/in.$1"
	wait_for 20 grep -q ^mapped "$WORK/$1"
	now=$(<"$GROUP/memory.current")
	exec 9>&-
	wait "$!"
	cat "$WORK/$1"
	mapped=$(awk '/^mapped/ { print $2 * 1024 }' "$WORK/$1")
	echo "from $before to $now octets"
	# Of what was there before a part may have gone meanwhile.
	grep -q "^$3 good" "$WORK/$1" && [ "$mapped" -gt 20000000 ] && [ "$now" -ge "$mapped" ]
}
given_back() {
	local left
	left=$(<"$GROUP/memory.current")
	echo "$((left >> 10)) KiB are left"
	[ "$left" -lt $((6 << 20)) ]
}
# Ten objects may be made; the program has two before it begins.
counted() {
	local said
	echo "$DEV hca_handle=1 hca_object=10" >"$GROUP/rdma.max" || return
	said=$(in_group limits "$DEV" pd 1 100 </dev/null 2>&1)
	echo "$said"
	[[ $said == "8 Resource temporarily unavailable"* ]]
}

run "load the driver" load_driver || exit 1
run "a group of 36 MiB" group 36M
run "no completion queue of 64 MiB" refused cq 2000000 0 0
run "some of 2 MiB" refused cq 65000 4 18
run "some large queue pairs" refused qp 30000 2 12
run "no limit any more" group max
run "small completion queues are charged" charged cq 1000 1000
run "small queue pairs are charged" charged qp 1000 200
run "all is given back" wait_for 10 given_back
run "objects are counted" counted
run "others are not held to that" limits "$DEV" cq 1000 20 </dev/null
run "unload the driver" unload_driver
