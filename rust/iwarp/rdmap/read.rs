// SPDX-License-Identifier: GPL-2.0

//! The RDMA Read Request Header on the wire (RFC 5040 s4.4, Figure 6).

use crate::bytes::{be32, be64, put};
use crate::types::{ReadRequest, Stag, TaggedOffset};

/// Octets of an RDMA Read Request Header.
pub const READ_REQUEST_LEN: usize = 28;

impl ReadRequest {
    /// Reads a header; every value is legal here, what it names is checked by its user.
    #[inline]
    pub fn from_bytes(b: &[u8; READ_REQUEST_LEN]) -> Self {
        Self {
            sink_stag: Stag(be32::<0, _>(b)),
            sink_to: TaggedOffset(be64::<4, _>(b)),
            len: be32::<12, _>(b),
            src_stag: Stag(be32::<16, _>(b)),
            src_to: TaggedOffset(be64::<20, _>(b)),
        }
    }

    /// The header as it is sent.
    #[inline]
    pub fn to_bytes(&self) -> [u8; READ_REQUEST_LEN] {
        let mut b = [0; READ_REQUEST_LEN];
        put::<0, 4, _>(&mut b, self.sink_stag.0.to_be_bytes());
        put::<4, 8, _>(&mut b, self.sink_to.0.to_be_bytes());
        put::<12, 4, _>(&mut b, self.len.to_be_bytes());
        put::<16, 4, _>(&mut b, self.src_stag.0.to_be_bytes());
        put::<20, 8, _>(&mut b, self.src_to.0.to_be_bytes());
        b
    }

    /// The request that is left when the first `done` octets have been answered.
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
