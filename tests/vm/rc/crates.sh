#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 1
# timeout: 240
# kernel: stock
# pairs: rsiw,*
#
# Programs in Rust with siw's library, on a link whose queue pairs they connect: the examples and tests of the crates
# ibverbs (rust-ibverbs) and sideway, which tools/crate-programs compiles. What the library does not have, and they ask
# for, they say. provider/crates has all of them with rsiw's own.

. /tests/lib.sh
. /tests/rc/lib
. /tests/device/lib
crates=/build/bin/crates
[ -d "$crates" ] || skip_all "no programs of crates: tools/crate-programs makes them"

# Each of them takes the first device.
alone() { load_module rsiw && rc_add rc0 eth0; }
run "load the driver and make a link" alone || exit 1
export RUST_BACKTRACE=0
looped() { "$crates/ibverbs/loopback" >"$WORK/said"; cat "$WORK/said"; grep -q sent "$WORK/said" && grep -q received "$WORK/said"; }
run "rust-ibverbs connects a queue pair to itself" looped
for program in show_gids ibv_devinfo; do run "sideway's $program runs" "$crates/sideway/$program"; done
run "sideway's test_mr_and_cq passes" "$crates/sideway/test_mr_and_cq" --test-threads 1

# asks_for WHAT TEXT PROGRAM OPTION...: it needs that, and fails with the text.
asks_for() { run "sideway's $3 asks for $1, and fails" says "$2" "$crates/sideway/$3" "${@:4}"; }
no_cq_ex="CreateCompletionQueueError(Ibverbs(Os { code: 95"
for program in test_cq test_atomic test_post_send; do
	asks_for "extended completion queues" "$no_cq_ex" "$program" --test-threads 1
done
for program in rc_pingpong rc_pingpong_split; do
	asks_for "extended completion queues" "$no_cq_ex" "$program" -d rc0 -g "$(gid_index "$ADDR")"
done
asks_for "128 bytes of inline data" "CreateQueuePairError(Ibverbs(Os { code: 22" test_qp --test-threads 1
run "no connection is left" wait_for 20 no_connections
