#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 120
# pairs: rsiw,*
# time: virtual
#
# A program's FetchAdd comes to a peer that refuses it, as those do that do not know RFC 7306. The program is told once,
# and what is behind it is flushed.

. /tests/lib.sh
need_provider

mapfile -t cases < <(python3 /tests/provider/refuser.py --list)
plan $((${#cases[@]} + 3))

run "load the driver" load_driver || exit 1
told_by "refusals" python3 /tests/provider/refuser.py "$ADDR" 7205
alive() { rping -s -C 3 -a "$ADDR" -p 7206 & server_up 7206 && rping -c -C 3 -a "$ADDR" -p 7206 && wait; }
run "rping connects afterwards" alive
