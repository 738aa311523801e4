#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 300
# kernel: stock
# pairs: rsiw,siw siw,rsiw
# interop: yes
# allow: traps: ib_\w+\[\d+\] general protection fault ip:.* in librdmacm
#
# Programs with rsiw's provider and the kernel's siw as their peer, which knows no RFC 7306: what both know works, and a
# FetchAdd is refused. The provider is on both hosts; here or there it serves a device of siw.

. /tests/lib.sh
. /tests/apps/lib
. /tests/perftest/lib
has_provider || skip_all "$NO_PROVIDER"

provided() { use_provider && load_driver; }
run "load the provider and the drivers" both eval "$(declare -f provided); provided" || exit 1
run "the library that is loaded is rsiw's" provider_is yes ibv_devinfo -d "$DEV"
run "rping compares what it moves" try_rping "$PEER" 4000 50
for test in ib_send_bw ib_write_bw ib_read_bw; do
	LIMIT=90 run "$test moves messages of 64 KiB" perftest 1 "$test" -s 65536 -n 200
done
LIMIT=60 run "ib_send_lat sends back and forth" perftest 1 ib_send_lat -s 64 -n 200
[ "$RSIW_DRIVER" = rsiw ] || exit 0
# refused: by a server of rping's, which has told no memory yet.
refused() {
	peer_bg refuser rping -s -a "$PEER" -p 7207
	server_up 7207 || return
	fetchadd "$PEER" 7207 >"$WORK/said" || return
	cat "$WORK/said"
	grep -qx 'FetchAdd: remote invalid request error' "$WORK/said" &&
		grep -qx 'Send: Work Request Flushed Error' "$WORK/said"
}
run "siw refuses a FetchAdd, and the program is told" refused
run "rping connects afterwards" try_rping "$PEER" 4000 50
