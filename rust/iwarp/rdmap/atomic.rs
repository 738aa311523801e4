// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations (RFC 7306 s5): the headers of Atomic Request and Response, and what the
//! operations do to a value; and two requests that no RFC has, in the same form.

use crate::bytes::Fields;
use crate::types::{Stag, TaggedOffset};

//= 7306-4-1: The RDMAP header for Atomic Request messages is 52 bytes
/// Bytes of an Atomic Operation Request Header (Figure 4).
pub const ATOMIC_REQUEST_LEN: usize = 52;

//= 7306-4-2: RDMAP header for Atomic Response Messages is 32 bytes long
//# deviates: 12, as Figure 6 and A.2 draw it; 32 would be the segment's length with the DDP
//# header and two bytes more
/// Bytes of an Atomic Operation Response Header, as Figure 6 draws it. (The 32 of section 4 are
/// those of the whole segment, with the DDP header, and two more.)
pub const ATOMIC_RESPONSE_LEN: usize = 12;

/// Bytes of the value that an operation is on. The target is aligned to as many.
pub const ATOMIC_LEN: u32 = 8;

/// The AOpCodes of Figure 5.
const FETCH_ADD: u8 = 0;
const CMP_SWAP: u8 = 2;
/// Those of the requests that both ends have to agree on, from the end that IANA comes to last.
const WRITE: u8 = 14;
const FLUSH: u8 = 15;

/// All bits of a mask that its operation does not use.
const NO_MASK: u64 = u64::MAX;

//= 7306-1.1-2: this specification requires all Atomic Operations defined within
//= 7306-5-3: MUST implement both the FetchAdd operation as
/// An Atomic Operation, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds `add`, in fields of which each bit of `mask` is the highest: no carry leaves a field.
    FetchAdd {
        /// What is added.
        add: u64,
        /// The fields' highest bits; with none there is one field of 64 bits.
        mask: u64,
    },
    /// Replaces the bits of `swap_mask` by those of `swap`, if the bits of `compare_mask` are those
    /// of `compare`.
    CmpSwap {
        /// The new bits.
        swap: u64,
        /// Which bits are replaced.
        swap_mask: u64,
        /// The bits that the value is to have.
        compare: u64,
        /// Which bits are compared.
        compare_mask: u64,
    },
    /// Replaces the value by these bytes, whatever it is. No RFC has it.
    Write {
        /// The bytes, in the order of their addresses.
        bytes: [u8; ATOMIC_LEN as usize],
    },
    /// Leaves the value, and is answered when all bytes of a range that were sent before are
    /// placed. No RFC has it.
    Flush(Flush),
}

/// What an [`AtomicOp::Flush`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// The bytes of the range, from the request's offset on.
    pub len: u32,
    /// Whether all processors are to see them. (InfiniBand's "global visibility".)
    pub global: bool,
    /// Whether they are to outlast a loss of power.
    pub persistent: bool,
    /// The range is all that the STag names.
    pub all: bool,
}

impl Flush {
    const GLOBAL: u64 = 1 << 0;
    const PERSISTENT: u64 = 1 << 1;
    const ALL: u64 = 1 << 2;

    fn flags(self) -> u64 {
        let flag = |set, bit| if set { bit } else { 0 };
        flag(self.global, Self::GLOBAL)
            | flag(self.persistent, Self::PERSISTENT)
            | flag(self.all, Self::ALL)
    }

    /// `None` for what it does not know.
    fn from_fields(len: u64, flags: u64) -> Option<Self> {
        let flush = Self {
            len: u32::try_from(len).ok()?,
            global: flags & Self::GLOBAL != 0,
            persistent: flags & Self::PERSISTENT != 0,
            all: flags & Self::ALL != 0,
        };
        (flush.flags() == flags).then_some(flush)
    }
}

impl AtomicOp {
    //= 7306-5-1: the Responder RNIC MUST implement mechanisms to prevent Atomic Operations
    //= 7306-5-2: It is OPTIONAL for an RNIC to provide such behavior
    //= 7306-5.1.1-4: The setting of the Add Mask field to 0x0000000000000000 results in
    //= 7306-5.1.1-5: The FetchAdd operation is performed in the endian format of
    //= 7306-5.1.2-1: the remote data Buffer MUST contain the
    //= 7306-5.3-1: MUST be assured in the context of concurrent atomic accesses
    //= 7306-5.4-2a: Atomicity guarantees MUST be provided within the scope of a
    //= 7306-5.4-2b: Atomicity guarantees are OPTIONAL with respect to access to the
    /// The value that follows `old`.
    ///
    /// What `FetchAdd` adds to the highest bits of the fields cannot carry if it is added without
    /// them, and the sum without a carry is an exclusive or.
    #[inline]
    pub const fn apply(self, old: u64) -> u64 {
        match self {
            Self::FetchAdd { add, mask } => {
                (old & !mask).wrapping_add(add & !mask) ^ ((old ^ add) & mask)
            }
            Self::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => {
                if (old ^ compare) & compare_mask == 0 {
                    (old & !swap_mask) | (swap & swap_mask)
                } else {
                    old
                }
            }
            Self::Write { bytes } => u64::from_ne_bytes(bytes),
            Self::Flush(_) => old,
        }
    }

    /// Whether it is one of those that no RFC has. Both ends have to agree on them, which they do
    /// as on Sends with immediate data (see
    /// [`Offer::send_immediate`](crate::mpa::Offer::send_immediate)).
    #[inline]
    pub const fn needs_agreement(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Flush(_))
    }
}

/// Atomic Operation Request Header (RFC 7306 s5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// Request Identifier, which the response repeats.
    pub id: u32,
    /// The responder's buffer.
    pub stag: Stag,
    /// Where in it the value is.
    pub to: TaggedOffset,
    /// The operation.
    pub op: AtomicOp,
}

impl AtomicRequest {
    //= 7306-5.2.1-2: All Atomic Operation Codes from Figure 5 MUST be implemented
    //= 7306-5.1.1-6, 7306-5.2.1-1, 7306-5.2.1-5, 7306-5.2.1-6
    /// Reads a header; `None` if its AOpCode is neither one of the RFC's nor one of those that
    /// [need agreement](AtomicOp::needs_agreement), or for a flush of what is not known. Fields
    /// that the operation does not use are ignored, and so are the reserved bits.
    #[inline]
    pub fn from_bytes(b: &[u8; ATOMIC_REQUEST_LEN]) -> Option<Self> {
        let op = match b[3] & 0x0f {
            FETCH_ADD => AtomicOp::FetchAdd {
                add: b.be64::<20>(),
                mask: b.be64::<28>(),
            },
            CMP_SWAP => AtomicOp::CmpSwap {
                swap: b.be64::<20>(),
                swap_mask: b.be64::<28>(),
                compare: b.be64::<36>(),
                compare_mask: b.be64::<44>(),
            },
            WRITE => AtomicOp::Write {
                bytes: b.be64::<20>().to_be_bytes(),
            },
            FLUSH => AtomicOp::Flush(Flush::from_fields(b.be64::<20>(), b.be64::<28>())?),
            _ => return None,
        };
        Some(Self {
            id: b.be32::<4>(),
            stag: Stag(b.be32::<8>()),
            to: TaggedOffset(b.be64::<12>()),
            op,
        })
    }

    //= 7306-5.1.1-6: The fields are in big-endian format on the wire
    //= 7306-5.2.1-1: This field is set to zero on transmit, ignored on
    //= 7306-5.2.1-5: the Compare Data field is set to zero on transmit and
    //= 7306-5.2.1-6: For Atomic Operations FetchAdd and Swap, this field is set to
    /// The header as it is sent.
    ///
    /// "For Atomic Operations FetchAdd and Atomic Swap, the Compare Data field is set to zero on
    /// transmit"; the mask "is set to ffffffffffffffffh" (s5.2.1).
    #[inline]
    pub fn to_bytes(&self) -> [u8; ATOMIC_REQUEST_LEN] {
        let (code, data, mask, compare, compare_mask) = match self.op {
            AtomicOp::FetchAdd { add, mask } => (FETCH_ADD, add, mask, 0, NO_MASK),
            AtomicOp::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => (CMP_SWAP, swap, swap_mask, compare, compare_mask),
            AtomicOp::Write { bytes } => (WRITE, u64::from_be_bytes(bytes), NO_MASK, 0, NO_MASK),
            AtomicOp::Flush(flush) => (FLUSH, flush.len.into(), flush.flags(), 0, NO_MASK),
        };
        let mut b = [0; ATOMIC_REQUEST_LEN];
        b[3] = code;
        b.put_be32::<4>(self.id);
        b.put_be32::<8>(self.stag.0);
        b.put_be64::<12>(self.to.0);
        b.put_be64::<20>(data);
        b.put_be64::<28>(mask);
        b.put_be64::<36>(compare);
        b.put_be64::<44>(compare_mask);
        b
    }
}

//= 7306-5.2.1-3: it is reflected back to the Local Peer in the
/// Atomic Operation Response Header (RFC 7306 s5.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicResponse {
    /// Original Request Identifier.
    pub id: u32,
    /// Original Remote Data Value: the value before the operation.
    pub value: u64,
}

impl AtomicResponse {
    /// Reads a header.
    #[inline]
    pub fn from_bytes(b: &[u8; ATOMIC_RESPONSE_LEN]) -> Self {
        Self {
            id: b.be32::<0>(),
            value: b.be64::<4>(),
        }
    }

    /// The header as it is sent.
    #[inline]
    pub fn to_bytes(&self) -> [u8; ATOMIC_RESPONSE_LEN] {
        let mut b = [0; ATOMIC_RESPONSE_LEN];
        b.put_be32::<0>(self.id);
        b.put_be64::<4>(self.value);
        b
    }
}
