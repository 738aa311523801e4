// SPDX-License-Identifier: GPL-2.0

//! Protection domains, which tie a QP to the memory that it may use.

use crate::limit::{Held, Limit};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::{prelude::*, sync::Arc};
use rdma::Consumer;

/// Identity of a protection domain. No two domains ever have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PdId(u64);

#[cfg(CONFIG_KUNIT = "y")]
impl PdId {
    /// An identity for tests, of no real domain.
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

/// One stream of a domain. Dropping it decrements the domain's number of streams.
pub(crate) struct Stream(Arc<Pd>);

impl Pd {
    /// Makes a domain. Context: sleeping. Errors: `ENOMEM`, also if the device has as many as
    /// allowed.
    pub(crate) fn new(limit: &Arc<Limit>, consumer: Consumer) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pd = Self {
            id: PdId(NEXT.fetch_add(1, Ordering::Relaxed)),
            streams: AtomicU32::new(0),
            _held: limit.hold()?,
        };
        Ok(Arc::new(pd, consumer.flags())?)
    }

    /// The domain's identity.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// Counts a new stream. Context: any.
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
