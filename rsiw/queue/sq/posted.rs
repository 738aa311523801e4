// SPDX-License-Identifier: GPL-2.0

//! A kernel consumer's requests that wait for tx.

use crate::{abi::sges_beyond, fifo::Fifo, wr::SendWr};
use kernel::prelude::*;
use rdma::Sge;

/// Requests, in order.
///
/// A kernel consumer's scatter/gather list may be longer than that of a mapped queue. The elements
/// beyond that are kept apart from the request, so that a request with a short list is small, and
/// copied fast.
pub(super) struct Posted {
    wrs: Fifo<SendWr>,
    /// A ring of the elements that have no room in their requests, in order. It has room for as
    /// many as all requests may have.
    more: KVVec<Sge>,
    /// Index of the next free element, and of the next one to take.
    put: usize,
    take: usize,
}

impl Posted {
    /// Room for no request: a process' requests wait in its ring.
    pub(super) const NONE: Self = Self {
        wrs: Fifo::empty(),
        more: KVVec::new(),
        put: 0,
        take: 0,
    };

    /// Makes room for `size` requests of up to `max_sge` elements. Context: sleeping. Errors:
    /// `ENOMEM`.
    pub(super) fn new(size: u32, max_sge: u32) -> Result<Self> {
        let more = (size as usize).checked_mul(sges_beyond(max_sge));
        Ok(Self {
            wrs: Fifo::with_capacity(size, GFP_KERNEL)?,
            more: KVVec::from_elem(Sge::NONE, more.ok_or(ENOMEM)?, GFP_KERNEL)?,
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

    /// Appends `wr`, whose list goes on with `more`. The caller has checked that there is room.
    /// Context: any.
    pub(super) fn put(&mut self, wr: SendWr, more: &[Sge]) {
        for sge in more {
            if let Some(place) = self.more.get_mut(self.put) {
                *place = *sge;
            }
            self.put = self.next(self.put);
        }
        let _ = self.wrs.push(wr);
    }

    /// Moves the first request to `wr`, and the elements that have no room in it to `rest`; `false`
    /// if there is no request. Context: any, if `rest` has capacity for as many elements as there
    /// may be.
    pub(super) fn take(&mut self, wr: &mut SendWr, rest: &mut KVec<Sge>) -> bool {
        let Some(posted) = self.wrs.pop() else {
            return false;
        };
        *wr = posted;
        rest.clear();
        for _ in 0..wr.more_sges() {
            if let Some(sge) = self.more.get(self.take) {
                // If `rest` had no room, sending the request would fail for lack of the bytes.
                let _ = rest.push_within_capacity(*sge);
            }
            self.take = self.next(self.take);
        }
        true
    }
}
