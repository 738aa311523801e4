// SPDX-License-Identifier: GPL-2.0

//! How connections begin and end: attempts, connections of a listener, and two machines against each
//! other, in virtual time; and a machine that gets inputs in any order.

#![no_main]

use iwarp_sim::{attempt, dial, incoming, schedule, Entropy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let e = &mut Entropy::new(rest);
    match mode % 5 {
        0 => schedule::run(e),
        1 => schedule::inputs(e),
        2 => incoming::random(e),
        3 => dial::random(e),
        _ => attempt::random(e),
    }
});
