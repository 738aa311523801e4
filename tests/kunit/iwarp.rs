// SPDX-License-Identifier: GPL-2.0

//! Runs the protocol engine's test cases (tests/host/suites) in KUnit, compiled with the kernel's
//! flags.

/// Makes the cases of a suite a suite of KUnit.
macro_rules! cases {
    ($kunit:ident: $($name:ident)*) => {
        #[kernel::prelude::kunit_tests($kunit)]
        mod cases {
            $(#[test] fn $name() -> $crate::suites::Outcome { super::$name() })*
        }
    };
}

#[path = "../host/suites/mod.rs"]
mod suites;

#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rust_iwarp\0";
