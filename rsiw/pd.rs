// SPDX-License-Identifier: GPL-2.0

//! Protection domains: what ties a QP to the memory that it may name.

use crate::limit::{Held, Limit};
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::{prelude::*, sync::Arc};

/// Identity of a protection domain; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PdId(u64);

/// A protection domain.
pub(crate) struct Pd {
    id: PdId,
    _held: Held,
}

impl Pd {
    /// A new domain. Errors: `ENOMEM` when the device has no more.
    pub(crate) fn new(limit: &Arc<Limit>) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pd = Self {
            id: PdId(NEXT.fetch_add(1, Ordering::Relaxed)),
            _held: limit.hold()?,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// The identity to compare.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }
}
