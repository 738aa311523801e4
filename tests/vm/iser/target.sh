#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# kernel: stock
#
# iSER: LIO's target, in the ordinary configuration with a TCP portal that iSER
# is switched on for, and open-iscsi: discovery, login, data, fio's verification,
# recovery of the session, logout.

. /tests/lib.sh
. /tests/iser/lib
# iw_cm (Linux 7.2) may crash the host at the first word of iwpmd.
[ -n "${RSIW_PORT_MAPPER:-}" ] || skip_all "iw_cm crashes now and then with iwpmd; --env RSIW_PORT_MAPPER=1 runs it"
plan 15

verify() { disk_verified "/dev/$(disk)" 16m; }
is_iser() { iscsiadm -m session | grep '^iser:'; }
back() {
	on_target deaf_iser || return
	sleep 1
	on_target hear_iser || return
	wait_for 40 logged_in
}
logged_in() { grep -q LOGGED_IN /sys/class/iscsi_session/session*/state; }

run "load the driver on both hosts" both load_driver port_mapper=1 || exit 1
run "the port mapper here" start_mapper
run "the port mapper there" on_target start_mapper
run "the target listens, by TCP and by RDMA" on_target "serve_iser $PEER" || exit 1
run "the initiator's daemon" start_initiator
run "discovery, by TCP" discover default
run "discovery, by iSER" discover iser
LIMIT=60 run "login" login iser || exit 1
run "it is iSER" is_iser
LIMIT=60 run "data" data 24
LIMIT=60 run "fio" verify
LIMIT=90 run "the target is gone, and comes back" back
LIMIT=60 run "data" data 4
run "logout" logout
run "the target ends" on_target "stop_iser $PEER"
