// SPDX-License-Identifier: GPL-2.0

//! The two DDP headers (RFC 5041 s4.1 to s4.3).
//!
//! The part of the header that DDP reserves for its ULP (RsvdULP) has RDMAP's names here: the
//! control field of both headers, and the Invalidate STag of untagged ones (RFC 5040 s4.1).

use crate::bytes::Fields;
use crate::mpa::fpdu::{length_in_word, LENGTH_LEN as PREFIX};
use crate::types::{Msn, Qn, Stag, TaggedOffset};

/// Bytes of the header of a tagged segment (Figure 4).
pub const TAGGED_LEN: usize = 14;
/// Bytes of the header of an untagged segment (Figure 5).
pub const UNTAGGED_LEN: usize = 18;
/// Offset of TO in a tagged header.
pub(crate) const TO_AT: usize = 6;
/// Offset of MO in an untagged header.
pub(crate) const MO_AT: usize = 14;

//= 5041-4.1-9: This field MUST be set to one to indicate
/// DDP version: "This field MUST be set to one" (RFC 5041 s4.1).
pub const VERSION: u8 = 1;

/// Tagged flag of the DDP Control Field.
pub(crate) const TAGGED: u8 = 0x80;
/// Last flag of the DDP Control Field.
const LAST: u8 = 0x40;
//= 5041-4.1-8
/// Version bits of the DDP Control Field.
///
/// The four bits between are reserved: "This field MUST be set to zero on transmit, and not checked
/// on receive."
pub(crate) const VERSION_MASK: u8 = 0x03;

/// Two fields as one word.
#[inline(always)]
fn two(first: u32, second: u32) -> u64 {
    (u64::from(first) << 32) | u64::from(second)
}

/// The first eight bytes of ULPDU Length and header.
#[inline(always)]
fn first_word(ulpdu: u16, ddp: u8, control: u8, stag: Stag) -> u64 {
    let controls = (u64::from(ddp) << 40) | (u64::from(control) << 32);
    length_in_word(ulpdu) | controls | u64::from(stag.0)
}

//= 5041-4.2-1: Header format that MUST be used in all DDP
/// Header of a segment for a Tagged Buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedHeader {
    /// L: the last segment of its message.
    pub last: bool,
    //= 5040-4.1-1: the DDP Protocol MUST be used by the RDMAP
    /// RsvdULP: the RDMAP Control Field.
    pub control: u8,
    /// The Data Sink's buffer.
    pub stag: Stag,
    /// Where the payload of this segment starts in the buffer.
    pub to: TaggedOffset,
}

impl TaggedHeader {
    /// Reads a header whose T flag is known to be set.
    #[inline]
    pub fn from_bytes(b: &[u8; TAGGED_LEN]) -> Self {
        Self {
            last: b[0] & LAST != 0,
            control: b[1],
            stag: Stag(b.be32::<2>()),
            to: TaggedOffset(b.be64::<TO_AT>()),
        }
    }

    //= 5041-4.1-8: This field MUST be set to zero on transmit
    /// The header as it is sent.
    #[inline]
    pub fn to_bytes(&self) -> [u8; TAGGED_LEN] {
        let [_, _, ddp @ ..] = self.behind(0);
        ddp
    }

    /// The header as it is sent behind a ULPDU Length.
    ///
    /// It is stored by whole words, as the next to read it copies it by whole words: a load that
    /// needs several stores waits until all of them have reached the cache.
    #[inline]
    pub(crate) fn behind(&self, ulpdu: u16) -> [u8; PREFIX + TAGGED_LEN] {
        let ddp = TAGGED | VERSION | if self.last { LAST } else { 0 };
        let mut b = [0; PREFIX + TAGGED_LEN];
        b.put_be64::<0>(first_word(ulpdu, ddp, self.control, self.stag));
        b.put_be64::<{ PREFIX + TO_AT }>(self.to.0);
        b
    }
}

//= 5041-4.3-1: Header format that MUST be used in all DDP
/// Header of a segment for an Untagged Buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UntaggedHeader {
    /// L: the last segment of its message.
    pub last: bool,
    /// RsvdULP\[0:7\]: the RDMAP Control Field.
    pub control: u8,
    //= 5040-4.1-3: DDP RsvdULP field MUST be used by RDMAP to
    /// RsvdULP\[8:39\]: the Invalidate STag. "For Send, Send with Solicited Event, RDMA Read
    /// Request, and Terminate, the Invalidate STag field MUST be set to zero on transmit and
    /// ignored by the receiver" (RFC 5040 s4.1).
    pub invalidate: Stag,
    /// Queue Number.
    pub qn: Qn,
    /// Message Sequence Number.
    pub msn: Msn,
    /// Message Offset: bytes of the message before this segment's payload.
    pub mo: u32,
}

impl UntaggedHeader {
    /// Reads a header whose T flag is known to be clear.
    #[inline]
    pub fn from_bytes(b: &[u8; UNTAGGED_LEN]) -> Self {
        Self {
            last: b[0] & LAST != 0,
            control: b[1],
            invalidate: Stag(b.be32::<2>()),
            qn: Qn(b.be32::<6>()),
            msn: Msn(b.be32::<10>()),
            mo: b.be32::<MO_AT>(),
        }
    }

    /// The header as it is sent.
    #[inline]
    pub fn to_bytes(&self) -> [u8; UNTAGGED_LEN] {
        let [_, _, ddp @ ..] = self.behind(0);
        ddp
    }

    /// The header as it is sent behind a ULPDU Length; see [`TaggedHeader::behind`].
    #[inline]
    pub(crate) fn behind(&self, ulpdu: u16) -> [u8; PREFIX + UNTAGGED_LEN] {
        let ddp = VERSION | if self.last { LAST } else { 0 };
        let mut b = [0; PREFIX + UNTAGGED_LEN];
        b.put_be64::<0>(first_word(ulpdu, ddp, self.control, self.invalidate));
        b.put_be64::<8>(two(self.qn.0, self.msn.0));
        b.put_be32::<{ PREFIX + MO_AT }>(self.mo);
        b
    }
}
