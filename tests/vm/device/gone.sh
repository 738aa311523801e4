#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# What processes see when a device changes or goes away under them: an error in
# time, never a hang, and nothing stays behind.

. /tests/lib.sh
. /tests/device/lib
plan 24

run "load the driver" load_driver || exit 1
ip link add dummy1 type dummy
ip link set dummy1 up
ip addr add 10.8.1.1/24 dev dummy1
run "a second device" add_device other dummy1

# --- the network device changes ----------------------------------------------
event_of() {
	local text=$1
	shift
	"$@" && told watch "$text" && tail -n 1 "$WORK/watch"
}
port_is() { rdma link show other/1; rdma link show other/1 | grep -q "state $1 physical_state $2"; }
run "a process holds the second" watching other
run "down: an event" event_of 'event port error' ip link set dummy1 down
run "the port is down" port_is DOWN DISABLED
run "up: an event" event_of 'event port active' ip link set dummy1 up
run "the port is active" port_is ACTIVE LINK_UP
renamed() { ip link set dummy1 down && ip link set dummy1 name dummy9 && ip link set dummy9 up &&
	wait_for 5 device_active other && rdma link show other/1 && rdma link show other/1 | grep -q 'netdev dummy9'; }
run "renamed: the device follows" renamed
run "renamed: connections as before" ping other 10.8.1.1 7310
run "address changed: an event" event_of 'event .*LID' ip link set dummy9 address 02:00:00:00:77:01
run "address changed: connections as before" ping other 10.8.1.1 7311

# --- rdma link del ------------------------------------------------------------
deleted() { rdma link del other && ! rdma link show other/1; }
run "busy: connections and listeners" busy 10.8.1.1 other
run "deleted while busy" within 10 deleted
run "the process that watched saw the end" saw_the_end
run "what was connected noticed, and no socket stays" busy_ends
run "the same once more: device" add_device other dummy9
run "and a connection" ping other 10.8.1.1 7312

# --- the network device goes ---------------------------------------------------
run "a process holds it" watching other
run "busy: connections and listeners" busy 10.8.1.1 other
deleted() { ip link del dummy9 && wait_for 5 no_device other; }
no_device() { [ ! -e "/sys/class/infiniband/$1" ]; }
run "the network device is deleted while busy" within 15 deleted
run "the process that watched saw the end" saw_the_end
run "what was connected noticed, and no socket stays" busy_ends

# --- nothing of that touched the first -----------------------------------------
run "the first device works" ping "$DEV" "$ADDR" 7313
unloaded() { unload_driver && [ ! -e /sys/module/"$RSIW_DRIVER" ]; }
run "the module unloads" within 10 unloaded
