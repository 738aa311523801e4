// SPDX-License-Identifier: GPL-2.0

//! Two peers that run scripts with each other, while data between them is damaged.

#![no_main]

use iwarp_sim::{mutant, Entropy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    mutant::run(&mut Entropy::new(data), 6, false);
});
