#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 200
# kernel: stock
# pairs: siw,siw
#
# Devices of the kernel's siw with rsiw's provider: programs find what they find with siw's.

. /tests/lib.sh
. /tests/apps/lib
. /tests/perftest/lib
has_provider || skip_all "$NO_PROVIDER"
plan 7

run "load siw on both hosts" both load_driver || exit 1
ibv_devinfo -v -d "$DEV" >"$WORK/before"
run "both hosts load rsiw's provider" both use_provider || exit 1
run "the library that is loaded is rsiw's" provider_is yes ibv_devinfo -d "$DEV"
same() { ibv_devinfo -v -d "$DEV" | diff "$WORK/before" -; }
run "the device has the same attributes" same
run "rping compares what it moves" try_rping "$PEER" 4000 50
for test in ib_write_bw ib_send_lat; do
	LIMIT=60 run "$test runs" perftest 1 "$test" -s 4096 -n 200
done
