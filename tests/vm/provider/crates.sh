#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# guests: 2
# timeout: 240
# time: virtual
# kernel: stock
# pairs: rsiw,rsiw
#
# Programs in Rust with rsiw's provider: the examples and tests of the crates ibverbs (rust-ibverbs) and sideway, which
# tools/crate-programs compiles. Most of them take each device that there is, or the first, so a link of the one kind
# is alone to begin with.

. /tests/lib.sh
. /tests/rc/lib
need_provider
crates=/build/bin/crates
[ -d "$crates" ] || skip_all "no programs of crates: tools/crate-programs makes them"

both_ways() { use_provider && load_module rsiw && rc_add rc0 eth0; }
run "load the provider and the driver, and make a link on both hosts" \
	both eval ". /tests/rc/lib; $(declare -f both_ways); both_ways" || exit 1
gids="$(peer_gid_index "$PEER") $(gid_index "$ADDR")"

export RUST_BACKTRACE=1
looped() { "$crates/ibverbs/loopback" >"$WORK/said"; cat "$WORK/said"; grep -q sent "$WORK/said" && grep -q received "$WORK/said"; }
run "rust-ibverbs connects a queue pair to itself" looped
for test in "$crates"/sideway/test_*; do
	run "sideway's ${test##*/} passes" "$test" --test-threads 1
done
run "sideway's rc_pingpong runs" pingpong "$crates/sideway/rc_pingpong" "$PEER" "$gids" -n 200
run "no connection is left" wait_for 20 no_connections
