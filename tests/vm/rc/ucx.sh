#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
# pairs: rsiw,rsiw
#
# UCX, which most MPIs use on InfiniBand, by its own program and by Open MPI: it connects queue pairs by itself. The
# MPI program compares the data; messages of other kinds are counted.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib

run "load the driver and make both kinds of links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
index=$(gid_index "$ADDR")
run "both hosts have the address at the same index" [ "$index" = "$(peer_gid_index "$PEER")" ]
ucx_over "$index"
run "UCX sends tagged messages" ucx_perftest tag_bw -s 65536 -n 300
run "UCX sends short tagged messages back and forth" ucx_perftest tag_lat -s 8 -n 300
run "UCX writes" ucx_perftest ucp_put_bw -s 65536 -n 300
run "UCX reads" ucx_perftest ucp_get -s 65536 -n 100
run "UCX sends active messages" ucx_perftest ucp_am_bw -s 4096 -n 300
run "UCX sends a stream" ucx_perftest stream_bw -s 65536 -n 300
run "UCX has used the link" more_than rc0 1000
before=$(tx_messages rc0)
LIMIT=120 run "two MPI ranks exchange messages and collectives" mpi_ucx python3 /tests/apps/mpi.py
used() { [ $(($(tx_messages rc0) - before)) -gt 100 ]; }
run "MPI has used the link" used
run "no connection is left" wait_for 20 no_connections
