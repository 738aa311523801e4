// SPDX-License-Identifier: GPL-2.0

//! DDP segments on the wire (RFC 5041 s4).

mod header;

pub use header::{TaggedHeader, UntaggedHeader, TAGGED_LEN, UNTAGGED_LEN, VERSION};
pub(crate) use header::{MO_AT, TAGGED, TO_AT, VERSION_MASK};
