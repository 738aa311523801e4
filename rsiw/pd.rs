// SPDX-License-Identifier: GPL-2.0

//! Protection domains: what ties a QP to the memory that it may name.

use crate::limit::{Held, Limit};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::{prelude::*, sync::Arc};
use rdma::Consumer;

/// Identity of a protection domain; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PdId(u64);

#[cfg(CONFIG_KUNIT)]
impl PdId {
    /// That of no domain.
    pub(crate) const fn of_test(id: u64) -> Self {
        Self(id)
    }
}

/// A protection domain.
pub(crate) struct Pd {
    id: PdId,
    /// Streams whose peers may name the domain's memory.
    streams: AtomicU32,
    _held: Held,
}

/// A stream of a domain, as long as it lasts.
pub(crate) struct Stream(Arc<Pd>);

impl Pd {
    /// A new domain. Errors: `ENOMEM` when the device has no more.
    pub(crate) fn new(limit: &Arc<Limit>, consumer: Consumer) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pd = Self {
            id: PdId(NEXT.fetch_add(1, Ordering::Relaxed)),
            streams: AtomicU32::new(0),
            _held: limit.hold()?,
        };
        Ok(Arc::new(pd, consumer.flags())?)
    }

    /// The identity to compare.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// A stream begins.
    pub(crate) fn join(self: &Arc<Self>) -> Stream {
        self.streams.fetch_add(1, Ordering::AcqRel);
        Stream(self.clone())
    }

    /// Whether more than one stream shares the domain's memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.streams.load(Ordering::Acquire) > 1
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}
