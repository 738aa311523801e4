// SPDX-License-Identifier: GPL-2.0

//! Where a kernel consumer's requests wait for tx.

use crate::{
    abi::{sges_beyond, Sge},
    fifo::Fifo,
    wr::SendWr,
};
use kernel::prelude::*;

/// Requests in their order. A list of more elements than a mapped queue's are made for lies in two parts, so
/// that a request of few is small, and copied fast.
pub(super) struct Posted {
    wrs: Fifo<SendWr>,
    /// What has no room in the requests, one behind the other: room for as much as all may have.
    more: KVVec<Sge>,
    /// Where the next one of these is put, and where the next one is taken.
    put: usize,
    take: usize,
}

impl Posted {
    /// Of a process, whose requests wait in its ring.
    pub(super) const NONE: Self = Self {
        wrs: Fifo::empty(),
        more: KVVec::new(),
        put: 0,
        take: 0,
    };

    /// Room for `size` requests of up to `max_sge` elements. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(size: u32, max_sge: u32) -> Result<Self> {
        let more = (size as usize).checked_mul(sges_beyond(max_sge));
        Ok(Self {
            wrs: Fifo::with_capacity(size, GFP_KERNEL)?,
            more: KVVec::from_elem(Sge::default(), more.ok_or(ENOMEM)?, GFP_KERNEL)?,
            ..Self::NONE
        })
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 < self.more.len() {
            at + 1
        } else {
            0
        }
    }

    /// Puts `wr` behind the others; its list goes on with `more`. The caller knows that there is room.
    /// Context: any.
    pub(super) fn put(&mut self, wr: SendWr, more: &[rdma::Sge]) {
        for sge in more {
            if let Some(place) = self.more.get_mut(self.put) {
                *place = sge.into();
            }
            self.put = self.next(self.put);
        }
        let _ = self.wrs.push(wr);
    }

    /// Moves the first one to `wr`, and how its list goes on to `rest`; `false` if there is none. Context:
    /// any, if `rest` has the capacity for as many elements as there may be.
    pub(super) fn take(&mut self, wr: &mut SendWr, rest: &mut KVec<Sge>) -> bool {
        let Some(posted) = self.wrs.pop() else {
            return false;
        };
        *wr = posted;
        rest.clear();
        for _ in 0..wr.more_sges() {
            if let Some(sge) = self.more.get(self.take) {
                // If it had no room, its bytes would be missed when they are sent.
                let _ = rest.push_within_capacity(*sge);
            }
            self.take = self.next(self.take);
        }
        true
    }
}
