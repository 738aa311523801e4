#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 180
#
# The same programs in one host that talks to itself over lo.

. /tests/lib.sh
. /tests/apps/lib
plan 11

run "load the driver on lo" load_on_lo || exit 1
run "rping over IPv4, 1000 bytes" try_rping "$LO" 1000 20
run "rping over IPv6, 65000 bytes" try_rping "$LO6" 65000 20
LIMIT=60 run "100 connections of ucmatose" try_ucmatose "$LO" 100
run "rdma_client over IPv4" try_rdma_client "$LO"
run "rdma_client over IPv6" try_rdma_client "$LO6"
run "rdma_xclient" try_rdma_xclient "$LO"
STREAM_SIZES=100000 LIMIT=60 run "rstream, verified" try_stream rstream "$LO" -T v
STREAM_SIZES=4096 LIMIT=60 run "riostream, verified" try_stream riostream "$LO6" -T v -f ipv6
# It looks at the last byte of its buffer, 8,000 times, and then compares the others.
LIMIT=60 run "what is written last is seen last" \
	within 40 stream_once riostream "$LO6" -S 4096 -I 8000 -C 1 -T v -f ipv6
LIMIT=60 run "rcopy of 16 MiB" try_rcopy "$LO" 16
