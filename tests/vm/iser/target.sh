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
plan 14

run "load the driver on both hosts" both load_driver port_mapper=1 || exit 1
run "the port mapper here" start_mapper
run "the port mapper there" on_target start_mapper
run "the target listens, by TCP and by RDMA" on_target "serve_iser $PEER" || exit 1
run "the initiator's daemon" start_initiator
run "discovery, by TCP" discover default
run "discovery, by iSER" discover iser
whole_session
