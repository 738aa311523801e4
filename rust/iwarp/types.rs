// SPDX-License-Identifier: GPL-2.0

//! Quantities that all layers name: steering tags, offsets, sequence and queue numbers.

use core::fmt;
use core::sync::atomic::AtomicU8;

/// A byte of the received stream. It lies in a page to which others may write meanwhile: a
/// process can splice pages into a socket that leads to this host, and change them afterwards.
///
/// So the byte that a second read finds may be another one. Whatever is checked is first copied,
/// by [`Handler::load`](crate::rx::Handler::load), and only the copy is looked at.
pub type SharedByte = AtomicU8;

/// Largest ULPDU in bytes that a sender may hand to MPA (RFC 5044 s3).
pub const MAX_ULPDU: u16 = 64768;

/// Smallest MULPDU in bytes that MPA may announce (RFC 5044 s3, s4.5).
pub const MIN_MULPDU: u16 = 128;

/// Steering Tag: names a Tagged Buffer of the Data Sink (RFC 5041 s4.2). Opaque on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stag(pub u32);

impl Stag {
    /// The STag in a message that names no buffer. "The STag and TO fields MUST NOT be checked for
    /// a zero-length Tagged DDP Message" (RFC 5041 s5.2), yet RNICs are known to refuse 0 in them.
    pub const UNNAMED: Self = Self(1);

    /// The STag in a message of `len` bytes for this buffer: [`UNNAMED`](Self::UNNAMED) if both
    /// are 0.
    #[inline]
    pub const fn carried(self, len: u32) -> Self {
        if len == 0 && self.0 == 0 {
            Self::UNNAMED
        } else {
            self
        }
    }
}

/// Tagged Offset: bytes from the origin of a Tagged Buffer (RFC 5041 s4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaggedOffset(pub u64);

impl TaggedOffset {
    /// The offset `len` bytes further on, or `None` if it wraps.
    ///
    /// RFC 5041 s7.1: "A 64-bit unsigned sum of the DDP Segment payload length and the TO does not
    /// wrap."
    #[inline]
    pub const fn checked_add(self, len: u32) -> Option<Self> {
        match self.0.checked_add(len as u64) {
            Some(to) => Some(Self(to)),
            None => None,
        }
    }

    /// The offset `len` bytes further on, modulo 2^64.
    #[inline]
    pub const fn wrapping_add(self, len: u32) -> Self {
        Self(self.0.wrapping_add(len as u64))
    }
}

/// Message Sequence Number of an untagged queue (RFC 5041 s4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Msn(pub u32);

impl Msn {
    //= 5041-4.3-9: The initial value for MSN MUST be one.
    /// RFC 5041 s4.3: "The initial value for MSN MUST be one."
    pub const FIRST: Self = Self(1);

    //= 5041-4.3-10: The MSN value MUST wrap to 0 after a
    //= 5041-4.3-8
    /// The number of the message after this one.
    ///
    /// RFC 5041 s4.3: "The MSN value MUST wrap to 0 after a value of 0xFFFFFFFF."
    #[inline]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl Default for Msn {
    fn default() -> Self {
        Self::FIRST
    }
}

/// Queue Number of an untagged message (RFC 5041 s4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qn(pub u32);

impl Qn {
    /// Send and its variants (RFC 5040 s3.1).
    pub const SEND: Self = Self(0);
    /// RDMA Read Requests (RFC 5040 s3.1) and Atomic Requests (RFC 7306 s5.2).
    pub const READ_REQUEST: Self = Self(1);
    /// Terminate (RFC 5040 s3.1).
    pub const TERMINATE: Self = Self(2);
    //= 7306-4.1-4: This queue is used for tracking outstanding Atomic Requests.
    /// Atomic Responses (RFC 7306 s4.1).
    pub const ATOMIC_RESPONSE: Self = Self(3);
}

//= 5040-5.2.1-11: Read Request Message MUST only read from one remote Tagged Buffer.
//= 5040-5.2.1-10
/// RDMA Read Request Header (RFC 5040 s4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// Buffer of the requester in which the response is placed.
    pub sink_stag: Stag,
    /// Offset in the sink buffer of the response's first byte.
    pub sink_to: TaggedOffset,
    /// RDMA Read Message Size: bytes to read, 0 to 2^32 - 1.
    pub len: u32,
    /// Buffer of the responder from which to read.
    pub src_stag: Stag,
    /// Offset in the source buffer of the first byte to read.
    pub src_to: TaggedOffset,
}

impl fmt::Display for Stag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}
