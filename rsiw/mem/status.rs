// SPDX-License-Identifier: GPL-2.0

//! What tools show of a region.

use super::{
    region::{Region, Store, VALID},
    Access,
};
use core::sync::atomic::Ordering;
use kernel::str::CStr;

/// What tools show of a region.
pub(crate) struct RegionStatus {
    /// Whose memory it is.
    pub(crate) kind: &'static CStr,
    /// Pages of a process that are pinned for it.
    pub(crate) pinned_pages: u64,
    /// The STag may be used.
    pub(crate) valid: bool,
    /// The rights while it may be used.
    pub(crate) access: Access,
    /// The number of the QP that made the last fast registration or binding, or 0.
    pub(crate) registered_by_qpn: u32,
}

impl Region {
    /// What tools show of the region. No addresses and no STag, as everybody may see it. Context:
    /// any.
    pub(crate) fn status(&self) -> RegionStatus {
        let state = self.state.load(Ordering::Relaxed);
        let (kind, pages) = match self.store().try_access().as_deref() {
            Some(Store::User { umem, .. }) if umem.address().is_none() => (c"dma-buf", 0),
            Some(Store::User { umem, .. }) => (c"process", umem.pages()),
            Some(Store::Dma(_) | Store::Local(_)) => (c"all", 0),
            Some(Store::Fast(_)) => (c"fast", 0),
            Some(Store::Window(_)) => (c"window", 0),
            None => (c"ended", 0),
        };
        RegionStatus {
            kind,
            pinned_pages: pages,
            valid: state & VALID != 0,
            access: Access::of_state(state),
            registered_by_qpn: self.registered_by_qpn.load(Ordering::Relaxed),
        }
    }
}
