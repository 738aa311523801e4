#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# time: virtual
# timeout: 240
# pairs: rsiw,rsiw
#
# perftest without the RDMA CM (-R), over links whose queue pairs it connects by itself.

. /tests/lib.sh
. /tests/rc/lib
plan 11

run "load the driver and make the links on both hosts" both eval ". /tests/rc/lib; rc_up" || exit 1
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"
run "ib_write_bw moves data one way" perf "$gids" ib_write_bw -s 65536 -n 500
run "ib_write_bw moves data both ways" perf "$gids" ib_write_bw -s 65536 -n 500 -b
run "ib_read_bw moves data" perf "$gids" ib_read_bw -s 65536 -n 300
run "ib_send_bw moves data both ways with 64 queue pairs" perf "$gids" ib_send_bw -s 4096 -n 200 -q 64 -b
run "ib_send_bw moves data over queue pairs of type UC" perf "$gids" ib_send_bw -c UC -s 65536 -n 300
run "ib_write_bw moves data over queue pairs of type UC" perf "$gids" ib_write_bw -c UC -s 65536 -n 300
run "ib_write_lat measures" perf "$gids" ib_write_lat -s 64 -n 500
run "ib_read_lat measures" perf "$gids" ib_read_lat -s 64 -n 500
run "ib_send_lat measures" perf "$gids" ib_send_lat -s 64 -n 500
run "no connection is left" wait_for 20 no_connections
