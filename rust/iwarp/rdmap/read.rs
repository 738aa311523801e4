// SPDX-License-Identifier: GPL-2.0

//! The RDMA Read Request Header on the wire (RFC 5040 s4.4, Figure 6).

use crate::bytes::Fields;
use crate::types::{ReadRequest, Stag, TaggedOffset};

/// Bytes of an RDMA Read Request Header.
pub const READ_REQUEST_LEN: usize = 28;

impl ReadRequest {
    //= 5040-4.4-1
    /// Reads a header. Every value is legal here; its user checks the buffers that it names.
    #[inline]
    pub fn from_bytes(b: &[u8; READ_REQUEST_LEN]) -> Self {
        Self {
            sink_stag: Stag(b.be32::<0>()),
            sink_to: TaggedOffset(b.be64::<4>()),
            len: b.be32::<12>(),
            src_stag: Stag(b.be32::<16>()),
            src_to: TaggedOffset(b.be64::<20>()),
        }
    }

    //= 5040-4.4-1: Request Header that MUST be used for all RDMA
    /// The header as it is sent.
    #[inline]
    pub fn to_bytes(&self) -> [u8; READ_REQUEST_LEN] {
        let mut b = [0; READ_REQUEST_LEN];
        b.put_be32::<0>(self.sink_stag.0);
        b.put_be64::<4>(self.sink_to.0);
        b.put_be32::<12>(self.len);
        b.put_be32::<16>(self.src_stag.0);
        b.put_be64::<20>(self.src_to.0);
        b
    }

    /// The request that is left when the first `done` bytes have been answered.
    ///
    /// RFC 5040 s4.8: "If the terminate occurs after the first RDMA Read Request byte is processed,
    /// the RDMA Read Request Header is updated to reflect the current location of the RDMA Read
    /// operation that is in process". `done` beyond [`len`](Self::len) counts as all.
    #[inline]
    pub fn after(&self, done: u32) -> Self {
        let done = done.min(self.len);
        Self {
            sink_to: self.sink_to.wrapping_add(done),
            len: self.len - done,
            src_to: self.src_to.wrapping_add(done),
            ..*self
        }
    }
}
