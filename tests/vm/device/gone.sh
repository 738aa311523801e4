#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# What processes see when their device changes or goes away: an error in time, never
# a hang. Nothing stays behind.

. /tests/lib.sh
. /tests/device/lib
plan 24

run "load the driver" load_driver || exit 1
ip link add dummy1 type dummy
ip link set dummy1 up
ip addr add 10.8.1.1/24 dev dummy1
run "make a second device" add_device other dummy1

# --- the network device changes ----------------------------------------------
event_of() {
	local text=$1
	shift
	"$@" && told watch "$text" && tail -n 1 "$WORK/watch"
}
port_is() { rdma link show other/1; rdma link show other/1 | grep -q "state $1 physical_state $2"; }
run "a process holds the second device" watching other
run "a process is told that the port goes down" event_of 'event port error' ip link set dummy1 down
run "rdma link shows the port down" port_is DOWN DISABLED
run "a process is told that the port is active again" event_of 'event port active' ip link set dummy1 up
run "rdma link shows the port active again" port_is ACTIVE LINK_UP
renamed() { ip link set dummy1 down && ip link set dummy1 name dummy9 && ip link set dummy9 up &&
	wait_for 5 device_active other && rdma link show other/1 && rdma link show other/1 | grep -q 'netdev dummy9'; }
run "a device follows a renamed network device" renamed
run "a device moves data after its network device is renamed" rping_self other 10.8.1.1 7310
run "a process is told of a new hardware address" event_of 'event .*LID' ip link set dummy9 address 02:00:00:00:77:01
run "a device moves data after a change of hardware address" rping_self other 10.8.1.1 7311

# --- rdma link del ------------------------------------------------------------
link_deleted() { rdma link del other && ! rdma link show other/1; }
run "start connections and listeners before link del" busy 10.8.1.1 other
run "rdma link del removes a busy device" within 10 link_deleted
run "a process with objects is told of link del" saw_the_end
run "link del ends connections and leaves no socket" busy_ends
run "re-create the second device" add_device other dummy9
run "a re-created device moves data" rping_self other 10.8.1.1 7312

# --- the network device goes ---------------------------------------------------
run "a process holds the re-created device" watching other
run "start connections and listeners before ip link del" busy 10.8.1.1 other
netdev_deleted() { ip link del dummy9 && wait_for 5 device_gone other; }
run "a busy device goes with its network device" within 15 netdev_deleted
run "a process with objects is told of ip link del" saw_the_end
run "ip link del ends connections and leaves no socket" busy_ends

# --- nothing of that touched the first -----------------------------------------
run "the first device still moves data" rping_self "$DEV" "$ADDR" 7313
unloaded() { unload_driver && [ ! -e /sys/module/"$RSIW_DRIVER" ]; }
run "the module unloads at the end" within 10 unloaded
