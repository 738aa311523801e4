// SPDX-License-Identifier: GPL-2.0

//! iWARP protocol engine: MPA, DDP and RDMAP as state machines without I/O.
//!
//! | Layer | Specification | Module |
//! |---|---|---|
//! | connections | | [`conn`] |
//! | MPA, connection setup | RFC 5044 s7, RFC 6581 | [`mpa`] |
//! | MPA, framing | RFC 5044 s4 | [`mpa::fpdu`], [`tx`], [`rx`] |
//! | DDP | RFC 5041 | [`ddp`], rules in [`rx`] |
//! | RDMAP | RFC 5040, RFC 7306 | [`rdmap`], rules in [`rx`] |
//!
//! The crate allocates nothing, reads no clock, knows no kernel and no socket. Payload never passes
//! through it: on receive a [`rx::Handler`] is told where each piece belongs, on transmit a
//! [`tx::Sink`] is told which piece comes next. Both are generic parameters, so that one FPDU costs
//! a header check and calls that the compiler resolves.
//!
//! # Placement and the CRC
//!
//! RFC 5044 s6: "An MPA receiver MUST first verify the FPDU before passing the ULPDU to DDP." The
//! [`rx::Receiver`] gets an FPDU whole if its sender aligns FPDUs to TCP segments, and then
//! verifies it before it places anything of it. Of an FPDU that comes in pieces it places the
//! payload as it comes, so that payload is copied once and need not be kept.
//! [`rx::FpduAssembler`] puts such FPDUs together first, for a copy each.
//!
//! Either way nothing is *delivered* before the CRC has been verified, as RFC 5040 s5.5 wants: the
//! contents of a buffer are indeterminate until delivery (rules 4 to 6), and after a CRC error no
//! delivery follows. So a bad FPDU that came in pieces can only leave indeterminate bytes where a
//! good one with the same header would have been allowed to write. The receiver also reports an
//! error in a header only after it has verified the CRC.
//!
//! # Bytes that change
//!
//! Others may write to the received bytes while the engine works ([`SharedByte`]). It copies each
//! byte of a header or trailer once, and calculates the CRC of that copy: what was verified is what
//! is used. Payload stays where it is, and is read once for the CRC and once for its placement. To
//! change it in between is the same as to send something else.
//!
//! # Panics and overflow
//!
//! No input can make the engine panic. The kernel is built with overflow checks, hence lengths and
//! offsets use checked arithmetic and sequence numbers wrap explicitly.

// The kernel's build puts `no_std` on the command line, and a second one is a warning.
#![cfg_attr(not(CONFIG_RUST), no_std)]
#![forbid(unsafe_code)]

mod bytes;
pub mod conn;
pub mod ddp;
pub mod mpa;
pub mod rdmap;
pub mod rx;
pub mod tx;
pub mod types;

pub use rdmap::{TermCode, Terminate};
pub use types::{Msn, Qn, ReadRequest, SharedByte, Stag, TaggedOffset, MAX_ULPDU, MIN_MULPDU};
