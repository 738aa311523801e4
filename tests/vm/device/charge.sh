#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# The memory of a process' objects is charged to its cgroup, and uncharged at their
# end. (The debug kernel has no memory cgroups.)

. /tests/lib.sh
. /tests/device/lib
plan 12

GROUP=/sys/fs/cgroup/rsiw

# group SIZE: makes the cgroup, which may use so much memory.
group() {
	echo "+memory +rdma" >/sys/fs/cgroup/cgroup.subtree_control || return
	mkdir -p "$GROUP"
	echo "$1" >"$GROUP/memory.max"
}
in_group() { sh -c 'echo $$ >'"$GROUP"'/cgroup.procs; exec "$@"' sh "$@"; }
# limited OBJECT SIZE LEAST MOST: a process in the cgroup makes between LEAST and MOST objects, then gets
# ENOMEM, and is not killed. (With small objects no memory is left for the program itself, and the kernel
# kills it.)
limited() {
	local said before kills
	kills=$(grep -h oom_kill "$GROUP/memory.events")
	said=$(in_group limits "$DEV" "$1" "$2" </dev/null 2>&1)
	echo "$said"
	[ "$kills" = "$(grep -h oom_kill "$GROUP/memory.events")" ] || { echo "killed"; return 1; }
	[[ $said == *"Cannot allocate memory"* ]] && [ "${said%% *}" -ge "$3" ] && [ "${said%% *}" -le "$4" ]
}
# charged OBJECT SIZE COUNT: the cgroup is charged for at least as much as the process has mapped.
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
	echo "from $before to $now bytes"
	# It need not have grown by as much: a part of what it had before may have gone.
	grep -q "^$3 good" "$WORK/$1" && [ "$mapped" -gt 20000000 ] && [ "$now" -ge "$mapped" ]
}
given_back() {
	local left
	left=$(<"$GROUP/memory.current")
	echo "$((left >> 10)) KiB are left"
	[ "$left" -lt $((6 << 20)) ]
}
# The cgroup may have ten objects, of which the program has two before it begins.
counted() {
	local said
	echo "$DEV hca_handle=1 hca_object=10" >"$GROUP/rdma.max" || return
	said=$(in_group limits "$DEV" pd 1 100 </dev/null 2>&1)
	echo "$said"
	[[ $said == "8 Resource temporarily unavailable"* ]]
}

run "load the driver" load_driver || exit 1
run "limit the cgroup to 36 MiB" group 36M
run "a completion queue of 64 MiB is refused" limited cq 2000000 0 0
run "only some completion queues of 2 MiB are made" limited cq 65000 4 18
run "only some large queue pairs are made" limited qp 30000 2 12
run "lift the limit of the cgroup" group max
run "small completion queues are charged to the cgroup" charged cq 1000 1000
run "small queue pairs are charged to the cgroup" charged qp 1000 200
run "all memory is uncharged from the cgroup" wait_for 10 given_back
run "the rdma cgroup limits the number of objects" counted
run "the limit of a cgroup does not hold for others" limits "$DEV" cq 1000 20 </dev/null
run "unload the driver" unload_driver
