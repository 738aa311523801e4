#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# kernel: stock
# pairs: rsiw,*
#
# The limits of a container's cgroups hold for what it has of an RDMA device, and for no other container.

. /tests/lib.sh
. /tests/container/lib
plan 7

SHARED=(--network host --device "rsiw/device=$DEV")
# makes NUMBER TEXT OPTION... -- OBJECT SIZE MOST: a container makes NUMBER objects, and then gets the error TEXT.
makes() {
	local number=$1 text=$2 options=() said
	shift 2
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	said=$(contained "${SHARED[@]}" "${options[@]}" -- /build/bin/limits "$DEV" "$@" 2>&1 </dev/null)
	echo "$said"
	[[ $said == *"$number $text"* ]]
}
# some LEAST MOST OPTION... -- OBJECT SIZE MOST: it makes so many, and then gets ENOMEM; the kernel kills nobody.
some() {
	local least=$1 most=$2 made
	shift 2
	makes "" "Cannot allocate memory" "$@" >"$WORK/some" || { cat "$WORK/some"; return 1; }
	cat "$WORK/some"
	made=$(sed -n 's/^\([0-9]*\) Cannot.*/\1/p' "$WORK/some")
	[ "$made" -ge "$least" ] && [ "$made" -le "$most" ]
}
pins() {
	contained "${SHARED[@]}" --user 65534 --ulimit memlock=1048576:1048576 -- /build/bin/limits "$DEV" pin 512 512 512 2>&1 |
		tee "$WORK/pins"
	# The program has a page of its own.
	grep -qi "cannot allocate" "$WORK/pins"
}

run "load the driver" load_driver || exit 1
run "set podman up" podman_set_up || exit 1
run "describe the device for CDI" rsiw-cdi -o /etc/cdi/rsiw.json
run "the rdma cgroup limits the objects of a container" makes 8 "Resource temporarily unavailable" \
	--cgroup-conf "rdma.max=$DEV hca_handle=1 hca_object=10" -- pd 1 100
run "the memory cgroup lets a container make some completion queues of 2 MiB" some 4 18 --memory 36m -- cq 65000
run "the limit of locked memory holds for a container" pins
run "a container without limits makes what it asks for" makes 100 good -- pd 1 100
