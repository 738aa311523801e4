// SPDX-License-Identifier: GPL-2.0

//! Sends that find no receive, as InfiniBand has it ("receiver not ready"), for queue pairs that
//! their programs connect ([`super::names`]).
//!
//! InfiniBand's receiver refuses such a Send, and tells how long its sender should wait at the
//! least (`min_rnr_timer`). The sender tries again, as often as its program has said (`rnr_retry`),
//! and then fails the Send. TCP carries a Send once, and only the receiver knows that it has no
//! receive. So the receiver waits for the sender's number of tries times its own time, and then
//! ends the stream by "Invalid MSN - no buffer available" (RFC 5041 section 7.2).
//!
//! For that it has to know the number. Its peer tells it, before the first Send that it is for, by
//! the Data Source Tagged Offset of a Read of no bytes:
//!
//! ```text
//!  0                 4                                 7           8
//!  | "rsRC"          | zeros                           | rnr_retry |
//! ```
//!
//! Only "for non-zero length RDMA Read Request Messages" does a receiver look at STag and Tagged
//! Offset (RFC 5040 section 7.2). So a peer that knows nothing of this answers as ever, and has a
//! Send wait for ever, as it waits where nothing was told. Any other value tells nothing.

use crate::types::TaggedOffset;

/// How often a Send is tried again that finds no receive: a number, 0 to 6, or for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RnrRetry(u8);

impl RnrRetry {
    /// Without end.
    pub const FOR_EVER: Self = Self(7);

    /// The Tagged Offset that tells 0.
    const NONE: u64 = 0x7273_5243 << 32;

    /// The attribute of a queue pair; what exceeds 7 is as 7.
    pub const fn new(rnr_retry: u8) -> Self {
        if rnr_retry < Self::FOR_EVER.0 {
            Self(rnr_retry)
        } else {
            Self::FOR_EVER
        }
    }

    /// The attribute of a queue pair.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The Tagged Offset that tells it.
    pub const fn to_offset(self) -> TaggedOffset {
        TaggedOffset(Self::NONE | self.0 as u64)
    }

    /// What a Tagged Offset tells.
    pub const fn from_offset(offset: TaggedOffset) -> Option<Self> {
        match offset.0 ^ Self::NONE {
            number @ 0..=7 => Some(Self(number as u8)),
            _ => None,
        }
    }

    /// Microseconds that a Send waits at a receiver with this `min_rnr_timer`; `None`: for ever.
    pub const fn wait_us(self, min_rnr_timer: u8) -> Option<u32> {
        match self {
            Self::FOR_EVER => None,
            Self(number) => Some(number as u32 * timer_us(min_rnr_timer)),
        }
    }
}

/// Microseconds that a code of five bits stands for, by InfiniBand's table ("RNR NAK Timer Field"):
/// two codes further it is twice the time. The first two are exceptions.
const fn timer_us(min_rnr_timer: u8) -> u32 {
    let code = min_rnr_timer & 31;
    match (code, code % 2) {
        (0, _) => 655_360,
        (1, _) => 10,
        (_, 0) => 10 << (code / 2),
        _ => 15 << (code / 2),
    }
}
