// SPDX-License-Identifier: GPL-2.0

//! Protection domains, which tie a QP to the memory that it may use.

use crate::quota::{Held, Quota};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use kernel::{prelude::*, sync::Arc};
use rdma::{Access, Consumer};

/// Identity of a protection domain. No two domains ever have the same. The lowest bit says whether
/// the domain is a kernel consumer's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PdId(u64);

impl PdId {
    /// The pseudo-domain of regions that any kernel consumer may use.
    pub(crate) const KERNEL: Self = Self::of(0, Consumer::Kernel);

    const fn of(number: u64, consumer: Consumer) -> Self {
        Self(number << 1 | matches!(consumer, Consumer::Kernel) as u64)
    }

    /// Whether queue pairs of this domain may use regions of the domain `region`.
    #[inline]
    pub(crate) fn may_use(self, region: Self) -> bool {
        self == region || (region == Self::KERNEL && self.0 & 1 != 0)
    }

    /// The identity of a consumer's domain for tests, of no real one.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) const fn of_test(number: u64, consumer: Consumer) -> Self {
        Self::of(number, consumer)
    }
}

/// A protection domain.
pub(crate) struct Pd {
    id: PdId,
    /// Streams whose peers may name the domain's memory.
    streams: AtomicU32,
    /// See [`Pd::takes_immediates`].
    immediates: AtomicBool,
    /// See [`Pd::more_rights`].
    more_rights: Access,
    _held: Held,
}

/// The membership of one stream in a domain: the domain counts it until this is dropped.
pub(crate) struct Membership(Arc<Pd>);

impl Pd {
    /// Makes a domain. Context: sleeping. Errors: `ENOMEM`, also if the device has as many as
    /// allowed.
    pub(crate) fn new(
        quota: &Arc<Quota>,
        consumer: Consumer,
        more_rights: Access,
    ) -> Result<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let pd = Self {
            id: PdId::of(NEXT.fetch_add(1, Ordering::Relaxed), consumer),
            streams: AtomicU32::new(0),
            immediates: AtomicBool::new(matches!(consumer, Consumer::Process)),
            more_rights,
            _held: quota.hold()?,
        };
        Ok(Arc::new(pd, consumer.flags())?)
    }

    /// The domain's identity.
    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// Counts a new stream. Context: any.
    pub(crate) fn join(self: &Arc<Self>) -> Membership {
        self.streams.fetch_add(1, Ordering::AcqRel);
        Membership(self.clone())
    }

    /// Whether the consumer expects Immediate Data of its peers. A process that can tell them from
    /// Sends does. Most kernel consumers know no such message of iWARP, and would take the length
    /// of a Write for that of what is in their receive: one that expects it shows so
    /// ([`Self::take_immediates`]).
    pub(crate) fn takes_immediates(&self) -> bool {
        self.immediates.load(Ordering::Relaxed)
    }

    /// A kernel consumer has posted a request with immediate data, or a receive that has no memory
    /// and so is for such a message.
    pub(crate) fn take_immediates(&self) {
        // Most often it was set before, and a store would take the cache line from others.
        if !self.takes_immediates() {
            self.immediates.store(true, Ordering::Relaxed);
        }
    }

    /// The rights that the domain's regions may have beside those that the library of siw knows,
    /// by what a process' provider knows: that memory windows are bound to them, and flushes.
    pub(crate) fn more_rights(&self) -> Access {
        self.more_rights
    }

    /// Whether more than one stream shares the domain's memory.
    pub(crate) fn is_shared(&self) -> bool {
        self.streams.load(Ordering::Acquire) > 1
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

#[kunit_tests(rsiw_pd)]
mod tests {
    use super::*;

    /// The local DMA key is for the kernel's domains, all other regions are for their own domain.
    #[test]
    fn domains_use_their_own_regions() {
        let kernel = |n| PdId::of_test(n, Consumer::Kernel);
        let process = |n| PdId::of_test(n, Consumer::Process);
        assert!(kernel(1).may_use(kernel(1)) && process(1).may_use(process(1)));
        assert!(!kernel(1).may_use(kernel(2)) && !process(1).may_use(process(2)));
        assert!(!kernel(1).may_use(process(1)) && !process(1).may_use(kernel(1)));
        assert!(kernel(1).may_use(PdId::KERNEL) && kernel(u64::MAX >> 1).may_use(PdId::KERNEL));
        for n in [0, 1, u64::MAX >> 1] {
            assert!(!process(n).may_use(PdId::KERNEL));
        }
    }
}
