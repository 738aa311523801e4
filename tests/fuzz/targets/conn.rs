// SPDX-License-Identifier: GPL-2.0

//! How connections end: two machines against each other in virtual time, and one that gets inputs
//! in any order.

#![no_main]

use iwarp_sim::{schedule, Entropy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    let e = &mut Entropy::new(rest);
    match mode & 1 {
        0 => schedule::run(e),
        _ => schedule::inputs(e),
    }
});
