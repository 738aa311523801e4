// SPDX-License-Identifier: GPL-2.0

//! Connection setup: of two engines with each other, and of an engine with arbitrary bytes; and
//! queue pairs that are called by name.

#![no_main]

use iwarp_sim::{setup, Entropy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else {
        return;
    };
    if mode & 0x80 != 0 {
        // A call by name, of this version.
        return setup::call(&[b"rsRC\x02", rest].concat());
    }
    match mode & 3 {
        0 => setup::run(&mut Entropy::new(rest)),
        1 => setup::feed(&mut Entropy::new(rest), rest),
        // A valid key, so that the fields after it are parsed.
        mode => {
            let key: &[u8] = if mode == 2 {
                b"MPA ID Req Frame"
            } else {
                b"MPA ID Rep Frame"
            };
            let stream = [key, rest].concat();
            setup::feed(&mut Entropy::new(rest), &stream);
        }
    }
});
