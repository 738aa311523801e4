// SPDX-License-Identifier: GPL-2.0

//! Where a kernel consumer's requests wait for tx.

use crate::{
    abi::{Sge, MAX_SGE},
    wr::SendWr,
};
use kernel::{alloc::Flags, prelude::*};

/// Places of requests. A list of more elements than a mapped queue's are made for lies in two parts, so
/// that a request of few is small, and copied fast.
pub(super) struct Posted {
    wrs: KVVec<Option<SendWr>>,
    /// What has no room in the requests, [`Posted::more_sge`] places for each.
    more: KVVec<Sge>,
    more_sge: usize,
}

impl Posted {
    /// No places: a process' requests wait in its ring.
    pub(super) const NONE: Self = Self {
        wrs: KVVec::new(),
        more: KVVec::new(),
        more_sge: 0,
    };

    /// `size` empty places for requests of up to `max_sge` elements. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn new(size: u32, max_sge: u32, flags: Flags) -> Result<Self> {
        let more_sge = (max_sge as usize).saturating_sub(MAX_SGE);
        let size = size as usize;
        let mut wrs = KVVec::with_capacity(size, flags)?;
        for _ in 0..size {
            wrs.push(None, flags)?;
        }
        let all = size.checked_mul(more_sge).ok_or(ENOMEM)?;
        Ok(Self {
            wrs,
            more: KVVec::from_elem(Sge::default(), all, flags)?,
            more_sge,
        })
    }

    /// Puts `wr` to the place `index`; its list goes on with `more`. Context: any.
    pub(super) fn put(&mut self, index: usize, wr: SendWr, more: &[rdma::Sge]) {
        if let Some(place) = self.wrs.get_mut(index) {
            *place = Some(wr);
        }
        for (place, sge) in self.more.iter_mut().skip(index * self.more_sge).zip(more) {
            *place = sge.into();
        }
    }

    /// Moves what is in the place `index` to `wr`; `false` if nothing is. Context: any.
    pub(super) fn take(&mut self, index: usize, wr: &mut SendWr) -> bool {
        let Some(posted) = self.wrs.get_mut(index).and_then(Option::take) else {
            return false;
        };
        let more = self.more.get(index * self.more_sge..).unwrap_or_default();
        wr.become_posted(posted, more);
        true
    }

    /// Empties the place `index`; `None` behind the last one. Context: any; what it gives may be the last
    /// reference to something.
    pub(super) fn remove(&mut self, index: usize) -> Option<Option<SendWr>> {
        self.wrs.get_mut(index).map(Option::take)
    }
}
