#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 90
# time: virtual
#
# libfabric's verbs provider: connected endpoints (msg), and reliable datagrams, which libfabric makes of
# connections (rxm). fi_pingpong compares the data.

. /tests/lib.sh
. /tests/apps/lib
plan 5

pingpong() {
	local provider=$1 endpoint=$2 size=$3
	set -- -p "$provider" -e "$endpoint" -I 50 -S "$size" -c
	drop pingpong
	serve pingpong 47592 fi_pingpong "$@" || return
	fi_pingpong "$@" "$PEER" || return
	peer_end pingpong 10
}

run "load the driver on both hosts" both load_driver || exit 1
for size in 64 65536; do
	run "fi_pingpong moves $size bytes over verbs" within 25 pingpong verbs msg "$size"
	run "fi_pingpong moves $size bytes over verbs with rxm" within 25 pingpong "verbs;ofi_rxm" rdm "$size"
done
