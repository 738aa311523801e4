#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
#
# The programs of this suite on one host, which connects to itself over lo.

. /tests/lib.sh
. /tests/apps/lib
plan 11

run "load the driver on lo" load_on_lo || exit 1
run "rping moves data over IPv4, 1000 bytes" try_rping "$LO" 1000 20
run "rping moves data over IPv6, 65000 bytes" try_rping "$LO6" 65000 20
LIMIT=60 run "ucmatose makes 100 connections" try_ucmatose "$LO" 100
run "rdma_client exchanges data over IPv4" try_rdma_client "$LO"
run "rdma_client exchanges data over IPv6" try_rdma_client "$LO6"
run "rdma_xclient exchanges data" try_rdma_xclient "$LO"
STREAM_SIZES=100000 LIMIT=60 run "rstream moves verified data" try_stream rstream "$LO" -T v
STREAM_SIZES=4096 LIMIT=60 run "riostream moves verified data" try_stream riostream "$LO6" -T v -f ipv6
# riostream waits for the last byte of its buffer, 8,000 times, and then compares the others.
LIMIT=60 run "riostream sees the last byte of a Write last" \
	within 40 stream_once riostream "$LO6" -S 4096 -I 8000 -C 1 -T v -f ipv6
LIMIT=60 run "rcopy copies 16 MiB" try_rcopy "$LO" 16
