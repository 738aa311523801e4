// SPDX-License-Identifier: GPL-2.0

//! Where a kernel consumer's requests wait for tx.

use crate::{
    abi::{Sge, MAX_SGE},
    wr::SendWr,
};
use core::ops::Range;
use kernel::{alloc::Flags, prelude::*};

/// Requests in their order. A list of more elements than a mapped queue's are made for lies in two parts, so
/// that a request of few is small, and copied fast.
pub(super) struct Posted {
    wrs: KVVec<Option<SendWr>>,
    /// What has no room in the requests, as many places for each.
    more: KVVec<Sge>,
    /// Where the next one is put, and where the next one is taken.
    put: usize,
    take: usize,
}

impl Posted {
    /// Of a process, whose requests wait in its ring.
    pub(super) const NONE: Self = Self {
        wrs: KVVec::new(),
        more: KVVec::new(),
        put: 0,
        take: 0,
    };

    /// Room for `size` requests of up to `max_sge` elements. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(size: u32, max_sge: u32, flags: Flags) -> Result<Self> {
        let size = size as usize;
        let mut wrs = KVVec::with_capacity(size, flags)?;
        for _ in 0..size {
            wrs.push(None, flags)?;
        }
        let more = (max_sge as usize).saturating_sub(MAX_SGE);
        let more = size.checked_mul(more).ok_or(ENOMEM)?;
        Ok(Self {
            wrs,
            more: KVVec::from_elem(Sge::default(), more, flags)?,
            ..Self::NONE
        })
    }

    /// Which of `more` are for the request at `at`.
    fn row(&self, at: usize) -> Range<usize> {
        let each = self.more.len().checked_div(self.wrs.len()).unwrap_or(0);
        at * each..at * each + each
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 < self.wrs.len() {
            at + 1
        } else {
            0
        }
    }

    /// Puts `wr` behind the others; its list goes on with `more`. The caller knows that there is room.
    /// Context: any.
    pub(super) fn put(&mut self, wr: SendWr, more: &[rdma::Sge]) {
        let (at, row) = (self.put, self.row(self.put));
        self.put = self.next(at);
        let places = self.more.get_mut(row).unwrap_or_default();
        for (place, sge) in places.iter_mut().zip(more) {
            *place = sge.into();
        }
        if let Some(place) = self.wrs.get_mut(at) {
            *place = Some(wr);
        }
    }

    /// Moves the first one to `wr`, and how its list goes on to `rest`; `false` if there is none. Context:
    /// any, if `rest` has the capacity for as many elements as there may be.
    pub(super) fn take(&mut self, wr: &mut SendWr, rest: &mut KVec<Sge>) -> bool {
        let (at, row) = (self.take, self.row(self.take));
        let Some(posted) = self.wrs.get_mut(at).and_then(Option::take) else {
            return false;
        };
        self.take = self.next(at);
        *wr = posted;
        rest.clear();
        let more = self.more.get(row).unwrap_or_default();
        for sge in more.iter().take(wr.more_sges()) {
            // If it had no room, its bytes would be missed when they are sent.
            let _ = rest.push_within_capacity(*sge);
        }
        true
    }

    /// Empties the place `index`; `None` behind the last one. Context: any; what it gives may be the last
    /// reference to something.
    pub(super) fn remove(&mut self, index: usize) -> Option<Option<SendWr>> {
        self.wrs.get_mut(index).map(Option::take)
    }
}
