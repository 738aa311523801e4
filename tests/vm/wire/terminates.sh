#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 150
# pairs: rsiw,*
#
# A peer makes its FPDUs itself. Right ones work; each kind of wrong message gets its
# Terminate, and then the connection ends. Terminates are counted by their error, whichever end has sent them.

. /tests/lib.sh

mapfile -t cases < <(python3 /tests/wire/terminates.py --list)
mapfile -t counted < <(python3 /tests/wire/counted.py --list)
plan $((${#cases[@]} + ${#counted[@]} + 11))

run "load the driver" load_driver || exit 1
peer_bg server rping -s -P -a 0.0.0.0 -p 7180
run "a consumer listens" server_up 7180
told_by "right and wrong FPDUs" python3 /tests/wire/terminates.py "$ADDR" 7180 "${cases[@]}"
peer_bg large rping -s -P -S 65000 -a 0.0.0.0 -p 7184
run "a consumer with a large buffer listens" server_up 7184
told_by "a large buffer" python3 /tests/wire/terminates.py "$ADDR" 7184 reads_beyond_ird
told_by "Terminates by error" python3 /tests/wire/counted.py "$DEV" "$ADDR" 7180 7184
# rping's regions have all rights, so another program's lacks one. (Without the right to be written a region is an
# invalid STag: DDP has no other error.)
run "have Terminates for missing rights shown" show_optional tx_terminates_access
peer_bg rights rsiw-verbs server "$ADDR"
run "a program whose region lacks a right listens" server_up 18515
refused() { rsiw-verbs client -t "*read-no-right" "$ADDR" && [ "$(optional tx_terminates_access)" -gt 0 ]; }
run "Terminates for a Read without the right are counted" refused
peer_kill rights
peer_kill large
peer_bg ping rping -s -C 5 -v -a "$ADDR" -p 7182
server_up 7182
run "rping still connects after all wrong messages" rping -c -C 5 -v -a "$ADDR" -p 7182
peer_kill server
