#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# kernel: stock
# pairs: rsiw,rsiw
#
# MPI between two hosts: Open MPI over libfabric, which makes reliable datagrams of the connected endpoints of
# its verbs provider. The program compares the data.

. /tests/lib.sh
. /tests/device/lib
plan 3

mpi() {
	mpirun --allow-run-as-root --host hosta:1,hostb:1 -np 2 --prtemca plm_ssh_agent /tests/apps/mpi-agent \
		--mca pml cm --mca mtl ofi \
		--mca opal_common_ofi_provider_include 'verbs;ofi_rxm' "$@"
}
run "load the driver on both hosts" both load_driver || exit 1
LIMIT=120 run "two MPI ranks exchange messages and collectives" mpi python3 /tests/apps/mpi.py
run "MPI has used the device" more_than "$DEV" 100
