// SPDX-License-Identifier: GPL-2.0

//! Test cases of the protocol engine that need neither `std` nor an allocator.
//!
//! `cargo test` runs them on the host (tests/cases.rs), and KUnit in the kernel
//! (tests/kunit/iwarp.rs), from the same files, with the same names. A case is a function that
//! returns an [`Outcome`]. Each suite lists its cases with `cases!`, a macro of whoever runs them.
//!
//! The cases spell out frames byte by byte from the figures of the RFCs. If the engine encoded
//! them, a mistake in its encoder could hide the same mistake in its decoder.

/// Fails the case, with the line, if the condition does not hold.
macro_rules! check {
    ($cond:expr) => {
        if !$cond {
            return Err($crate::suites::Failed {
                line: line!(),
                what: stringify!($cond),
            });
        }
    };
}

/// Fails the case if both values differ.
macro_rules! check_eq {
    ($left:expr, $right:expr) => {
        match (&$left, &$right) {
            (left, right) => {
                if *left != *right {
                    return Err($crate::suites::Failed {
                        line: line!(),
                        what: concat!(stringify!($left), " == ", stringify!($right)),
                    });
                }
            }
        }
    };
}

/// Where a case failed.
#[derive(Clone, Copy)]
pub(crate) struct Failed {
    /// Line of the check.
    pub(crate) line: u32,
    /// The check.
    pub(crate) what: &'static str,
}

impl core::fmt::Debug for Failed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Result of a case.
pub(crate) type Outcome = Result<(), Failed>;

pub(crate) mod answering;
mod case;
pub(crate) mod connecting;
pub(crate) mod ending;
pub(crate) mod framing;
pub(crate) mod golden;
pub(crate) mod naming;
pub(crate) mod probe;
pub(crate) mod rules_atomic;
pub(crate) mod rules_atomic_response;
pub(crate) mod rules_ddp;
pub(crate) mod rules_extensions;
pub(crate) mod rules_immediate;
pub(crate) mod rules_mpa;
pub(crate) mod rules_order;
pub(crate) mod rules_rdmap;
pub(crate) mod setup;
pub(crate) mod setup_frame;
pub(crate) mod startup;
pub(crate) mod terminate;
pub(crate) mod wire;
