#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# kernel: stock
#
# iSER with LIO's target and open-iscsi, in the usual configuration: the portal listens
# with TCP, and iSER is switched on for it. Discovery, login, data, fio's verification,
# recovery of the session, logout.

. /tests/lib.sh
. /tests/iser/lib
plan 14

run "load the driver on both hosts" both load_driver port_mapper=1 || exit 1
run "start the port mapper on this host" start_mapper
run "start the port mapper on the peer" on_target start_mapper
run "the iSER target listens with TCP and RDMA" on_target "serve_iser $PEER" || exit 1
run "start the initiator's daemon" start_initiator
run "the iSCSI initiator discovers the target over TCP" discover default
LIMIT=60 run "the iSCSI initiator discovers the target over iSER" discover iser
whole_session
