// SPDX-License-Identifier: GPL-2.0

//! Two peers with memory that run scripts with each other.

#![no_main]

use iwarp_sim::{pair, Entropy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    pair::run(&mut Entropy::new(data), 6);
});
