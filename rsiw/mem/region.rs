// SPDX-License-Identifier: GPL-2.0

//! One registered memory region.
//!
//! A region is accessed by its STag (index and key): local requests gather from it or scatter to
//! it, the peer reads or writes it, and kernel consumers register and invalidate it again and
//! again. Its bytes are in a [`Revocable`]. Each access checks the STag and copies, in any context.
//! Deregistration revokes the bytes and releases the pages, so an old reference to a region gives
//! no access to memory.
//!
//! - [`copy`]: copies into the bytes and out of them.

mod copy;

use super::{window::Window, Access, MemError, Rights};
use crate::pd::PdId;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use iwarp::rx::Refusal;
use kernel::prelude::*;
use kext::{lock::SpinLockIrq, new_spinlock_irq, revocable::Revocable};
use rdma::{AllMemory, LocalDmaKey, MrType, PageList, SgMap, Umem};

/// Set in `state` while the STag may be used. The low bits are the access rights.
pub(super) const VALID: u32 = 1 << 31;

/// The most bytes of a fast registration that are copied with interrupts disabled, which its lock
/// does: others on this processor wait for no more than a page.
pub(super) const FAST_PIECE: usize = 4096;

/// The bytes of a region.
pub(crate) enum Store {
    /// Pinned pages of a process, or a dma-buf: `len` bytes, of which the STag addresses the first
    /// by `iova`.
    User { umem: Umem, iova: u64, len: u64 },
    /// All kernel memory: a DMA region that a kernel consumer asked for.
    Dma(AllMemory),
    /// What kernel consumers name by the device's local DMA key: the memory of their requests'
    /// elements. The region itself has no bytes.
    Local(LocalDmaKey),
    /// A page list that a kernel consumer maps and registers by work request.
    Fast(Pin<KBox<FastStore>>),
    /// A process' memory window, which has no bytes of its own.
    Window(Pin<KBox<Window>>),
}

/// The page list that `map_mr_sg` fills in.
#[pin_data]
pub(crate) struct FastStore {
    #[pin]
    pages: SpinLockIrq<PageList>,
    /// First address and length as registered, to check a segment's bounds without the lock, which
    /// disables interrupts. A copy checks again under the lock.
    iova: AtomicU64,
    len: AtomicU64,
}

/// A memory region; see the module's documentation.
#[pin_data]
pub(crate) struct Region {
    /// Index and key. A kernel consumer changes the key with each registration.
    stag: AtomicU32,
    pd: PdId,
    pub(super) state: AtomicU32,
    /// The number of the QP that made the fast registration or bound the window, or 0.
    pub(super) registered_by_qpn: AtomicU32,
    /// Windows that are bound to it; see [`Region::bar_windows`].
    pub(super) windows: AtomicU32,
    #[pin]
    store: Revocable<Store>,
}

impl Region {
    /// Makes a region that cannot be used until [`Self::enable`].
    pub(crate) fn new(pd: PdId, store: Store) -> impl PinInit<Self> {
        pin_init!(Self {
            stag: AtomicU32::new(0),
            pd,
            state: AtomicU32::new(0),
            registered_by_qpn: AtomicU32::new(0),
            windows: AtomicU32::new(0),
            store <- Revocable::new(store),
        })
    }

    /// An empty fast-registration store for up to `most` pages, or elements with gaps. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(crate) fn fast_store(mr_type: MrType, most: u32) -> Result<Store> {
        let pages = PageList::with_capacity(mr_type, most)?;
        Ok(Store::Fast(KBox::pin_init(
            pin_init!(FastStore {
                pages <- new_spinlock_irq!(pages, "rsiw_fast"),
                iova: AtomicU64::new(0),
                len: AtomicU64::new(0),
            }),
            GFP_KERNEL,
        )?))
    }

    /// Makes `stag` the STag in use, with the rights `access`. Context: any.
    pub(crate) fn enable(&self, stag: u32, access: Access) {
        self.fenced(|_| self.set(stag, access));
    }

    /// As [`Self::enable`], for a fast registration by the QP `qpn`, with `iova` as the address
    /// of the first byte. Returns `false` and changes nothing if the STag is in use: others know
    /// it, so the consumer must invalidate it first. Context: any.
    #[must_use]
    pub(crate) fn register(&self, stag: u32, access: Access, iova: u64, qpn: u32) -> bool {
        self.fenced(|fast| {
            if self.state.load(Ordering::Acquire) & VALID != 0 {
                return false;
            }
            if let Some((fast, pages)) = fast {
                pages.set_iova(iova);
                fast.iova.store(iova, Ordering::Relaxed);
                fast.len.store(pages.len(), Ordering::Relaxed);
            }
            self.registered_by_qpn.store(qpn, Ordering::Relaxed);
            self.set(stag, access);
            true
        })
    }

    pub(super) fn set(&self, stag: u32, access: Access) {
        self.stag.store(stag, Ordering::Relaxed);
        // Release pairs with the Acquire in `valid`: a reader that sees the region valid sees its
        // STag and bounds.
        self.state.store(VALID | access.bits(), Ordering::Release);
    }

    /// Sets the STag of a region that is not enabled yet.
    pub(crate) fn set_stag(&self, stag: u32) {
        self.stag.store(stag, Ordering::Relaxed);
    }

    /// The STag: index and key.
    pub(crate) fn stag(&self) -> u32 {
        self.stag.load(Ordering::Relaxed)
    }

    /// Takes the STag out of use. Returns `false` if it was not in use. Context: any.
    ///
    /// For a fast registration this is a fence: accesses that have begun are over on return, since
    /// the consumer gives the pages to others next. (A process' pages remain its own.)
    pub(crate) fn disable(&self) -> bool {
        self.fenced(|_| self.state.swap(0, Ordering::AcqRel) & VALID != 0)
    }

    /// The bytes.
    #[inline]
    pub(super) fn store(&self) -> &Revocable<Store> {
        &self.store
    }

    /// Calls `f`; for a fast registration with the page list, and while no access is under way, as
    /// for a window. A window that is not valid afterwards is bound to nothing any more.
    fn fenced<R>(&self, f: impl FnOnce(Option<(&FastStore, &mut PageList)>) -> R) -> R {
        let store = self.store.try_access();
        match store.as_deref() {
            Some(Store::Fast(fast)) => f(Some((fast, &mut *fast.pages.lock()))),
            Some(Store::Window(window)) => window.fenced(self, || f(None)),
            _ => f(None),
        }
    }

    /// Whether the region is a fast registration.
    pub(crate) fn is_fast(&self) -> bool {
        self.store
            .try_access()
            .is_some_and(|s| matches!(&*s, Store::Fast(_)))
    }

    /// Whether a request of the QP `qpn` may invalidate the STag: that of a fast registration, or
    /// of a window that is bound to the QP.
    pub(crate) fn may_invalidate(&self, qpn: u32) -> bool {
        match self.store.try_access().as_deref() {
            Some(Store::Fast(_)) => true,
            Some(Store::Window(_)) => self.registered_by_qpn.load(Ordering::Relaxed) == qpn,
            _ => false,
        }
    }

    /// Takes the STag out of use if it is `key`. Returns whether it has done so. Context: any.
    pub(crate) fn invalidate(&self, key: u32) -> bool {
        self.fenced(|_| self.stag() == key && self.state.swap(0, Ordering::AcqRel) & VALID != 0)
    }

    //= 5040-8.1.1-8: An RNIC MUST ensure that a Remote Peer is
    //# what a QP registered is for its own peer, what was registered for a protection domain is
    //# its peers' only if it has one stream
    //= 5040-8.1.1-3, 5041-8.3.1-3
    /// Invalidates the STag `key` for the peer of the QP with the number `qpn`. `alone`: the
    /// protection domain of the region has no other streams.
    ///
    /// The STag must give that peer a right. (The sink of a Read is named on the wire, too, but has
    /// none.) And nobody else may depend on it: "an RNIC MUST ensure that a Remote Peer is not able
    /// to invalidate an STag enabled for remote access, if the STag is shared on multiple streams"
    /// (RFC 5040 section 8.1.1). A fast registration, or a window, is for the peer of the QP that
    /// made it. A process' region is shared by all streams of its domain.
    ///
    /// # Errors
    ///
    /// `CannotInvalidate`; `InvalidStag` if the STag is not in use. Context: any.
    pub(crate) fn invalidate_by_peer(
        &self,
        key: u32,
        qpn: u32,
        alone: bool,
    ) -> Result<(), Refusal> {
        let remote = Access::REMOTE.bits();
        let of_domain = match self.store.try_access().as_deref() {
            Some(Store::User { .. }) => Some(alone),
            Some(Store::Fast(_) | Store::Window(_)) => None,
            _ => Some(false),
        };
        // Check and invalidate in one `fenced` call, so that both concern the same registration.
        self.fenced(|_| {
            let by_qpn = || self.registered_by_qpn.load(Ordering::Relaxed);
            let mine = of_domain.unwrap_or_else(|| by_qpn() == qpn);
            let state = self.state.load(Ordering::Acquire);
            if state & VALID == 0 || self.stag() != key {
                return Err(Refusal::InvalidStag);
            }
            if !mine || state & remote == 0 {
                return Err(Refusal::CannotInvalidate);
            }
            if self.state.swap(0, Ordering::AcqRel) & VALID == 0 {
                return Err(Refusal::InvalidStag);
            }
            Ok(())
        })
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    //= 5040-8.1.1-7, 5041-8.3.1-7
    /// Ends the region: afterwards no byte of it is read or written, and pinned pages are released.
    /// Context: sleeping.
    pub(crate) fn destroy(&self) {
        self.disable();
        match self.store.revoke() {
            // Now, as the RDMA core's objects that the release uses may go next, and the process'
            // locked memory must be uncharged when its call returns.
            Some(Store::User { umem, .. }) => umem.release(),
            other => drop(other),
        }
    }

    /// The address, in the process, of a process' pinned memory (a dma-buf has none), and whether
    /// it was pinned for writing. `None` for another region, and for one that has ended. Context:
    /// any.
    pub(crate) fn pinned(&self) -> Option<(Option<u64>, bool)> {
        match &*self.store.try_access()? {
            Store::User { umem, .. } => Some((umem.address(), umem.is_writable())),
            _ => None,
        }
    }

    /// Ends a process' region as [`Self::destroy`] does, but leaves the pages pinned and returns
    /// them. `None` as of [`Self::pinned`]. Context: sleeping.
    pub(crate) fn take_store(&self) -> Option<Store> {
        self.pinned()?;
        self.disable();
        self.store.revoke()
    }

    //= 5040-8.1.1-2: An RNIC MUST ensure that a specific Stream in
    //= 5040-8.1.2-3: The Privileged Resource Manager MUST NOT assume that different ULPs
    //= 5041-8.2-1: the DDP layer MUST surface a local error to the ULP.
    //= 5041-8.2-3: DDP MUST support Protection Domain association and DDP Stream
    //# deviates: the verbs have no call for it: a consumer that wants one Stream only gives it a
    //# protection domain of its own
    //= 5041-8.3.1-2: An RNIC MUST ensure that a specific DDP Stream
    //= 5041-8.3.2-4: The Privileged Resource Manager MUST NOT assume different ULPs share
    //= 5040-5.2.1-13, 5040-7.2-9, 5040-7.2-10, 5041-4.2-6, 5041-7.1-2a, 5041-7.1-2b
    /// Checks that a holder of `rights` in the domain `pd` may use `len` bytes at `addr`. For zero
    /// bytes there are no bounds to check. Context: any.
    pub(super) fn check(
        &self,
        rights: Rights,
        pd: PdId,
        addr: u64,
        len: u32,
    ) -> Result<(), MemError> {
        self.valid(rights.key, Access::LOCAL_READ)?;
        if !pd.may_use(self.pd) {
            return Err(MemError::Domain);
        }
        let store = self.store.try_access().ok_or(MemError::Invalid)?;
        if let Store::Window(window) = &*store {
            return window.check(self, rights, addr, len.into());
        }
        self.valid(rights.key, rights.need)?;
        if len == 0 {
            return Ok(());
        }
        store.bound(addr, u64::from(len)).map(drop)
    }

    /// First address and length of the bytes, if they never change.
    pub(crate) fn fixed(&self) -> Option<(u64, u64)> {
        match &*self.store.try_access()? {
            Store::User { iova, len, .. } => Some((*iova, *len)),
            Store::Dma(_) | Store::Local(_) => Some((0, u64::MAX)),
            Store::Fast(_) | Store::Window(_) => None,
        }
    }

    /// The device's local DMA key, if this is its region.
    pub(super) fn local(&self) -> Option<LocalDmaKey> {
        if self.pd != PdId::KERNEL {
            return None;
        }
        match &*self.store.try_access()? {
            Store::Local(key) => Some(*key),
            _ => None,
        }
    }

    //= 5040-8.1.1-6, 5041-8.3.1-6
    /// Checks that `key` is the STag in use and grants `need`.
    pub(super) fn valid(&self, key: u32, need: Access) -> Result<(), MemError> {
        let state = self.state.load(Ordering::Acquire);
        if state & VALID == 0 || self.stag() != key {
            return Err(MemError::Invalid);
        }
        if !Access::of_state(state).allows(need) {
            return Err(MemError::Access);
        }
        Ok(())
    }

    /// Replaces the page list of a fast registration. The consumer promises that the STag is
    /// invalid meanwhile; if not, accesses see one list or the other, never a mix. Context: any.
    /// Errors: `EINVAL` for another region; those of mapping.
    pub(crate) fn map(&self, map: &mut SgMap<'_>) -> Result {
        let store = self.store.try_access().ok_or(EINVAL)?;
        let Store::Fast(fast) = &*store else {
            return Err(EINVAL);
        };
        let pages = &mut *fast.pages.lock();
        map.map_into(pages).map(drop)
    }
}

//= 5040-8.1.1-4: An RNIC MUST ensure that a Remote Peer is
//= 5041-8.3.1-4: An RNIC MUST ensure that a Remote Peer is
//= 5040-7.2-11, 5040-7.2-12, 5041-7.1-2c, 5041-7.1-2d
/// Returns the offset of `addr` from `base`, if `len` bytes from there are inside of `size`.
pub(super) fn offset_in(base: u64, size: u64, addr: u64, len: u64) -> Result<u64, MemError> {
    addr.checked_add(len).ok_or(MemError::Wrap)?;
    let offset = addr.checked_sub(base).ok_or(MemError::Bounds)?;
    let end = offset.checked_add(len).ok_or(MemError::Wrap)?;
    if end > size {
        return Err(MemError::Bounds);
    }
    Ok(offset)
}

impl Store {
    /// Returns the offset in the store of `len` bytes at `addr`, if they are inside.
    pub(super) fn bound(&self, addr: u64, len: u64) -> Result<u64, MemError> {
        match self {
            Store::User {
                iova, len: size, ..
            } => offset_in(*iova, *size, addr, len),
            Store::Dma(_) | Store::Local(_) => {
                addr.checked_add(len).map(|_| addr).ok_or(MemError::Wrap)
            }
            Store::Fast(fast) => {
                let (iova, size) = (&fast.iova, &fast.len);
                let (iova, size) = (iova.load(Ordering::Relaxed), size.load(Ordering::Relaxed));
                offset_in(iova, size, addr, len)
            }
            Store::Window(_) => Err(MemError::Bounds),
        }
    }
}

#[kunit_tests(rsiw_region)]
mod tests {
    use super::*;
    use rdma::Consumer;

    /// A key of index 5, and the next key of the same region.
    const KEY: u32 = 5 << 8 | 7;
    const NEXT: u32 = 5 << 8 | 8;
    const OURS: PdId = PdId::of_test(1, Consumer::Process);
    const OTHER: PdId = PdId::of_test(2, Consumer::Process);

    #[test]
    fn ranges_are_inside_or_refused() {
        const TOP: u64 = u64::MAX;
        for (base, size, addr, len, expected) in [
            (1000, 100, 1000, 100, Ok(0)),
            (1000, 100, 1099, 1, Ok(99)),
            (1000, 100, 1100, 0, Ok(100)),
            (0, 100, 40, 60, Ok(40)),
            (1000, 100, 999, 1, Err(MemError::Bounds)),
            (1000, 100, 1099, 2, Err(MemError::Bounds)),
            (1000, 100, 1101, 0, Err(MemError::Bounds)),
            (1000, 0, 1000, 1, Err(MemError::Bounds)),
            (1000, 100, TOP, 1, Err(MemError::Wrap)),
            (1000, 100, TOP - 98, 100, Err(MemError::Wrap)),
            (TOP - 100, 100, TOP - 100, 100, Ok(0)),
            (0, TOP, TOP - 1, 1, Ok(TOP - 1)),
            (0, TOP, 1, TOP, Err(MemError::Wrap)),
        ] {
            assert!(offset_in(base, size, addr, len) == expected);
        }
    }

    /// Key, domain and right are checked in this order, and before the bounds.
    #[test]
    fn keys_domains_and_rights_are_checked() -> Result {
        let region = KBox::pin_init(
            Region::new(OURS, Region::fast_store(MrType::Pages, 1)?),
            GFP_KERNEL,
        )?;
        let check = |key, pd, len, need| region.check(Rights { key, need, qpn: 0 }, pd, 0, len);
        let (read, write) = (Access::REMOTE_READ, Access::REMOTE_WRITE);
        assert!(check(KEY, OURS, 0, read) == Err(MemError::Invalid));
        assert!(region.register(KEY, read, 0, 3));
        assert!(check(KEY, OURS, 0, read) == Ok(()));
        assert!(check(NEXT, OURS, 0, read) == Err(MemError::Invalid));
        assert!(check(NEXT, OTHER, 0, write) == Err(MemError::Invalid));
        assert!(check(KEY, OTHER, 0, write) == Err(MemError::Domain));
        assert!(check(KEY, OURS, 1, write) == Err(MemError::Access));
        assert!(check(KEY, OURS, 0, Access::NEVER) == Err(MemError::Access));
        // No page is mapped.
        assert!(check(KEY, OURS, 1, read) == Err(MemError::Bounds));
        region.destroy();
        assert!(check(KEY, OURS, 0, read) == Err(MemError::Invalid));
        Ok(())
    }

    #[test]
    fn an_stag_in_use_is_not_registered_again() -> Result {
        let region = KBox::pin_init(
            Region::new(OURS, Region::fast_store(MrType::Pages, 1)?),
            GFP_KERNEL,
        )?;
        let all = Access::REMOTE;
        assert!(region.register(KEY, all, 0, 3));
        assert!(!region.register(NEXT, all, 0, 3));
        assert!(!region.invalidate(NEXT));
        assert!(region.invalidate(KEY));
        assert!(!region.invalidate(KEY));
        assert!(region.register(NEXT, all, 0, 3));
        assert!(region.stag() == NEXT);
        Ok(())
    }

    /// A peer invalidates STags that its own QP registered with a right for peers, no others.
    #[test]
    fn peers_invalidate_what_was_given_to_them() -> Result {
        let region = KBox::pin_init(
            Region::new(OURS, Region::fast_store(MrType::Pages, 1)?),
            GFP_KERNEL,
        )?;
        let refused = |result| matches!(result, Err(Refusal::CannotInvalidate));
        let invalid = |result| matches!(result, Err(Refusal::InvalidStag));
        assert!(invalid(region.invalidate_by_peer(KEY, 3, true)));
        assert!(region.register(KEY, Access::LOCAL_WRITE, 0, 3));
        assert!(refused(region.invalidate_by_peer(KEY, 3, true)));
        assert!(region.invalidate(KEY));
        assert!(region.register(KEY, Access::REMOTE_READ, 0, 3));
        assert!(refused(region.invalidate_by_peer(KEY, 4, true)));
        assert!(invalid(region.invalidate_by_peer(NEXT, 3, true)));
        assert!(region.invalidate_by_peer(KEY, 3, false).is_ok());
        assert!(invalid(region.invalidate_by_peer(KEY, 3, true)));
        Ok(())
    }
}
