// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations (RFC 7306 s5): the headers of Atomic Request and Response, and what the
//! operations do to a value.

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
        }
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
    /// Reads a header; `None` if its AOpCode is not one of the RFC's. Fields that the operation
    /// does not use are ignored, and so are the reserved bits.
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
