// SPDX-License-Identifier: GPL-2.0

//! The test cases that host and kernel share.

/// Has the test runner run the cases of a suite.
macro_rules! cases {
    ($_kunit:ident: $($name:ident)*) => {
        mod cases {
            $(#[test] fn $name() -> $crate::suites::Outcome { super::$name() })*
        }
    };
}

#[path = "../suites/mod.rs"]
mod suites;
