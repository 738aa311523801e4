#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
#
# States and attributes of queue pairs that a program connects by itself.

. /tests/lib.sh
. /tests/rc/lib

run "load the driver and make both kinds of links" rc_up || exit 1
told_by "queue pairs of a program" rcstates rc0 "$(gid_index "$ADDR")"
refused() { ip link add link eth0 name vlan7 type vlan id 7 && ! rdma link add rc7 type rsiw_rc netdev vlan7; }
run "a link on a VLAN is refused" refused
gids() { cat /sys/class/infiniband/rc0/ports/1/gids/[0-9]; }
gone_gid() { ! gid_index 10.7.77.1; }
follow() {
	ip addr add 10.7.77.1/24 dev eth0
	wait_for 30 gid_index 10.7.77.1 || { gids; return 1; }
	ip addr del 10.7.77.1/24 dev eth0
	wait_for 30 gone_gid || { gids; return 1; }
}
run "GIDs follow the addresses of the interface" follow
run "rdma link del removes one link and leaves the other" eval 'rdma link del rc0 && device_active "$DEV"'
run "a link is made again" rc_add rc0 eth0
