#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 90
# pairs: rsiw,*
# allow: iwpm_\w+:
#
# A network device is renamed while it has an RDMA device: the port mapper is told the new name, by which it finds the
# network device.

. /tests/lib.sh
. /tests/device/lib
plan 6

make() { ip link add old1 type dummy && ip addr add 10.8.6.1/24 dev old1 && ip link set old1 up && add_device r_one old1; }
# asks NAME: when somebody listens, the core asks the port mapper for the device on NAME.
asks() {
	started mapper python3 -B /tests/device/rename.py
	told mapper ready || return
	started server rping -s -a 10.8.6.1 -p 7691 -C 1
	told mapper 'asked by' 10
	cat "$WORK/mapper"
	kill "$(<"$WORK/server.pid")"
	# The core waits for an answer.
	ends server 30
	grep -qx "asked by $1 r_one" "$WORK/mapper"
}

run "load the driver" load_module "$RSIW_DRIVER" || exit 1
run "make a link on a dummy" make
LIMIT=60 run "the port mapper is told the network device" asks old1
run "rename the network device" ip link set old1 name new1
LIMIT=60 run "the port mapper is told the new name" asks new1
run "the RDMA device stays" device_active r_one
