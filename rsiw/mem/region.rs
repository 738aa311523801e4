// SPDX-License-Identifier: GPL-2.0

//! One registered memory region.
//!
//! A region is reached through its STag (index and key) from three sides: local requests gather
//! from it or scatter to it, the peer reads or writes it, and kernel consumers register and
//! invalidate it again and again. The bytes sit in a [`Revocable`]: each access checks and copies, in
//! whatever context it runs; deregistration revokes them and gives the pages back. A reference to a
//! region therefore never keeps memory reachable.

use super::{Access, MemError};
use crate::pd::PdId;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use iwarp::rx::Refusal;
use kernel::{prelude::*, sync::Arc};
use kext::{lock::SpinLockIrq, new_spinlock_irq, revocable::Revocable};
use rdma::{KernelMemory, Memory, PageList, SgMap, Umem};

/// Set in `state` while the STag may be used; the low bits are the access rights.
const VALID: u32 = 1 << 31;

/// The bytes behind a region.
pub(crate) enum Store {
    /// Pinned pages of a process: `len` bytes that the STag addresses from `iova` on.
    User { umem: Umem, iova: u64, len: u64 },
    /// All kernel memory: the DMA region that a kernel consumer asked for.
    Dma(KernelMemory),
    /// A page list that a kernel consumer maps and registers by work request.
    Fast(Pin<KBox<FastStore>>),
}

/// What `map_mr_sg` filled in.
#[pin_data]
pub(crate) struct FastStore {
    #[pin]
    pages: SpinLockIrq<PageList>,
    /// First address and length as they were registered: to see without the lock, which disables
    /// interrupts, that a segment will have room. Who copies looks again, under it.
    iova: AtomicU64,
    len: AtomicU64,
}

/// See the module's documentation.
#[pin_data]
pub(crate) struct Region {
    /// Index and key; a kernel consumer changes the key with each registration.
    stag: AtomicU32,
    pd: PdId,
    state: AtomicU32,
    /// The QP that a fast registration was asked of; no QP has number 0.
    stream: AtomicU32,
    #[pin]
    store: Revocable<Store>,
}

impl Region {
    /// A region that cannot be used until [`Self::enable`].
    pub(crate) fn new(pd: PdId, store: Store) -> impl PinInit<Self> {
        pin_init!(Self {
            stag: AtomicU32::new(0),
            pd,
            state: AtomicU32::new(0),
            stream: AtomicU32::new(0),
            store <- Revocable::new(store),
        })
    }

    /// An empty fast-registration store for up to `pages` pages. Context: sleeping.
    pub(crate) fn fast_store(pages: u32) -> Result<Store> {
        let pages = PageList::with_capacity(pages)?;
        Ok(Store::Fast(KBox::pin_init(
            pin_init!(FastStore {
                pages <- new_spinlock_irq!(pages, "rsiw_fast"),
                iova: AtomicU64::new(0),
                len: AtomicU64::new(0),
            }),
            GFP_KERNEL,
        )?))
    }

    /// Makes the STag `stag` usable with the rights `access`.
    pub(crate) fn enable(&self, stag: u32, access: Access) {
        self.fenced(|_| self.set(stag, access));
    }

    /// As [`Self::enable`], for a fast registration by the QP of number `stream`: its first byte is
    /// addressed by `iova`. `false`, and nothing changes, if the STag is in use: the consumer must
    /// invalidate it first, as others were told of it. Context: any.
    #[must_use]
    pub(crate) fn register(&self, stag: u32, access: Access, iova: u64, stream: u32) -> bool {
        self.fenced(|fast| {
            if self.state.load(Ordering::Acquire) & VALID != 0 {
                return false;
            }
            if let Some((fast, pages)) = fast {
                pages.set_iova(iova);
                fast.iova.store(iova, Ordering::Relaxed);
                fast.len.store(pages.len(), Ordering::Relaxed);
            }
            self.stream.store(stream, Ordering::Relaxed);
            self.set(stag, access);
            true
        })
    }

    fn set(&self, stag: u32, access: Access) {
        self.stag.store(stag, Ordering::Relaxed);
        // Release: whoever sees the region valid sees its STag and its bounds.
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

    /// Takes the STag out of use; `false` if it was not in use.
    ///
    /// For a fast registration this is a fence: accesses that have begun are over when it returns,
    /// since its consumer gives the pages to others next. (A process' pages stay its own.)
    pub(crate) fn disable(&self) -> bool {
        self.fenced(|_| self.state.swap(0, Ordering::AcqRel) & VALID != 0)
    }

    /// Runs `f` while no access to a fast registration is under way, with its page list.
    fn fenced<R>(&self, f: impl FnOnce(Option<(&FastStore, &mut PageList)>) -> R) -> R {
        let store = self.store.try_access();
        match store.as_deref() {
            Some(Store::Fast(fast)) => f(Some((fast, &mut *fast.pages.lock()))),
            _ => f(None),
        }
    }

    /// Whether remote or local invalidation may take it away: only fast registrations.
    pub(crate) fn is_fast(&self) -> bool {
        self.store
            .try_access()
            .is_some_and(|s| matches!(&*s, Store::Fast(_)))
    }

    /// Takes the STag `key` out of use, if it is still the one in use; `false` if not.
    pub(crate) fn invalidate(&self, key: u32) -> bool {
        self.fenced(|_| self.stag() == key && self.state.swap(0, Ordering::AcqRel) & VALID != 0)
    }

    /// The peer of the QP of number `stream` takes the STag `key` back. `alone`: its protection
    /// domain has no other streams.
    ///
    /// It must have been given a right by it. (The sink of an RDMA Read is named on the wire as
    /// well, but that gives no right.) And nobody else may depend on it: "an RNIC MUST ensure that
    /// a Remote Peer is not able to invalidate an STag enabled for remote access, if the STag is
    /// shared on multiple streams" (RFC 5040 section 8.1.1). What a QP registered is for its peer;
    /// what was registered for a whole domain is shared by the domain's streams.
    ///
    /// # Errors
    ///
    /// `CannotInvalidate`; `InvalidStag` if it is not in use. Context: any.
    pub(crate) fn invalidate_by_peer(
        &self,
        key: u32,
        stream: u32,
        alone: bool,
    ) -> Result<(), Refusal> {
        let remote = Access::REMOTE_READ.bits() | Access::REMOTE_WRITE.bits();
        let of_process = matches!(self.store.try_access().as_deref(), Some(Store::User { .. }));
        // In one, so that it is this registration which is judged and ended.
        self.fenced(|fast| {
            let mine = match fast {
                Some(_) => self.stream.load(Ordering::Relaxed) == stream,
                None => of_process && alone,
            };
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

    /// Ends the region: after this no byte of it is read or written, and pinned pages are given
    /// back. Context: sleeping.
    pub(crate) fn destroy(&self) {
        self.disable();
        match self.store.revoke() {
            // Now, not later: the core's objects that the release refers to may go next, and the
            // process' locked memory is to be uncharged when its call returns.
            Some(Store::User { umem, .. }) => umem.release(),
            other => drop(other),
        }
    }

    /// Checks that `len` bytes at `addr` may be used for `need` by a holder of `key` in domain
    /// `pd`. Zero bytes are checked for key and domain only, as there is nothing to bound.
    fn check(&self, key: u32, pd: PdId, addr: u64, len: u32, need: Access) -> Result<(), MemError> {
        self.valid(key, Access::LOCAL_READ)?;
        if self.pd != pd {
            return Err(MemError::Domain);
        }
        self.valid(key, need)?;
        if len == 0 {
            return Ok(());
        }
        let store = self.store.try_access().ok_or(MemError::Invalid)?;
        store.bound(addr, u64::from(len)).map(drop)
    }

    /// First address and length of the bytes, if they are the same for good.
    fn fixed(&self) -> Option<(u64, u64)> {
        match &*self.store.try_access()? {
            Store::User { iova, len, .. } => Some((*iova, *len)),
            _ => None,
        }
    }

    /// Whether `key` is the STag in use, and grants `need`.
    fn valid(&self, key: u32, need: Access) -> Result<(), MemError> {
        let state = self.state.load(Ordering::Acquire);
        if state & VALID == 0 || self.stag() != key {
            return Err(MemError::Invalid);
        }
        if !Access::of_state(state).allows(need) {
            return Err(MemError::Access);
        }
        Ok(())
    }

    /// Copies `dst.len()` bytes at `addr` out of the region. Context: any.
    ///
    /// Key and right are checked at each access, in the middle of a message too: the STag may have
    /// been invalidated since, and registered anew for others.
    fn read(&self, key: u32, need: Access, addr: u64, dst: &mut [u8]) -> Result<(), MemError> {
        let store = self.store.try_access().ok_or(MemError::Invalid)?;
        let len = dst.len() as u64;
        match &*store {
            Store::User { umem, .. } => {
                self.valid(key, need)?;
                umem.read(store.bound(addr, len)?, dst)
            }
            Store::Dma(mem) => {
                self.valid(key, need)?;
                mem.read(addr, dst)
            }
            Store::Fast(fast) => {
                let pages = fast.pages.lock();
                self.valid(key, need)?;
                pages.read(list_offset(&pages, addr, len)?, dst)
            }
        }
        .map_err(|_| MemError::Bounds)
    }

    /// Copies `src` to `addr` of the region. Context: any. Checks as [`Self::read`].
    fn write(&self, key: u32, need: Access, addr: u64, src: &[u8]) -> Result<(), MemError> {
        let store = self.store.try_access().ok_or(MemError::Invalid)?;
        let len = src.len() as u64;
        match &*store {
            Store::User { umem, .. } => {
                self.valid(key, need)?;
                umem.write(store.bound(addr, len)?, src)
            }
            Store::Dma(mem) => {
                self.valid(key, need)?;
                mem.write(addr, src)
            }
            Store::Fast(fast) => {
                let pages = fast.pages.lock();
                self.valid(key, need)?;
                pages.write(list_offset(&pages, addr, len)?, src)
            }
        }
        .map_err(|_| MemError::Bounds)
    }

    /// Replaces a fast registration's page list. The consumer promises that the STag is invalid
    /// meanwhile; if it breaks the promise, accesses see either list, never a mix. Context: any.
    pub(crate) fn map(&self, map: &mut SgMap<'_>) -> Result {
        let store = self.store.try_access().ok_or(EINVAL)?;
        let Store::Fast(fast) = &*store else {
            return Err(EINVAL);
        };
        let pages = &mut *fast.pages.lock();
        map.map_into(pages).map(drop)
    }
}

/// What a key gave its holder: a region, by that key, for that use. Copying through it checks that
/// it is still so.
#[derive(Clone)]
pub(crate) struct ResolvedMr {
    region: Arc<Region>,
    key: u32,
    need: Access,
    /// First address and length, if they never change.
    fixed: Option<(u64, u64)>,
}

impl ResolvedMr {
    /// Checks that `region` grants `need` on `len` bytes at `addr` to a holder of `key` in `pd`.
    pub(super) fn new(
        region: Arc<Region>,
        key: u32,
        pd: PdId,
        addr: u64,
        len: u32,
        need: Access,
    ) -> Result<Self, MemError> {
        region.check(key, pd, addr, len, need)?;
        let fixed = region.fixed();
        Ok(Self {
            region,
            key,
            need,
            fixed,
        })
    }

    /// Checks another range.
    pub(crate) fn check(&self, pd: PdId, addr: u64, len: u32) -> Result<(), MemError> {
        let (key, need) = (self.key, self.need);
        if self.covers(key, pd, (addr, len), need) {
            return Ok(());
        }
        self.region.check(key, pd, addr, len, need)
    }

    /// Whether it grants `need` on this range as well, to a holder of `key` in `pd`.
    #[inline]
    pub(crate) fn covers(&self, key: u32, pd: PdId, (addr, len): (u64, u32), need: Access) -> bool {
        if self.key != key || self.need != need {
            return false;
        }
        let region = &self.region;
        match self.fixed {
            Some((base, size)) => {
                region.pd == pd
                    && region.valid(key, need).is_ok()
                    && offset_in(base, size, addr, u64::from(len)).is_ok()
            }
            None => region.check(key, pd, addr, len, need).is_ok(),
        }
    }

    /// Whether the region is a fast registration, which its consumer may invalidate.
    pub(crate) fn is_fast(&self) -> bool {
        self.region.is_fast()
    }

    /// Copies `dst.len()` bytes at `addr` out of the region. Context: any.
    pub(crate) fn read(&self, addr: u64, dst: &mut [u8]) -> Result<(), MemError> {
        self.region.read(self.key, self.need, addr, dst)
    }

    /// Copies `src` to `addr` of the region. Context: any.
    pub(crate) fn write(&self, addr: u64, src: &[u8]) -> Result<(), MemError> {
        self.region.write(self.key, self.need, addr, src)
    }

    /// Takes the STag out of use, unless that has another key by now.
    pub(crate) fn invalidate(&self) {
        self.region.invalidate(self.key);
    }
}

/// Offset of `len` bytes at `addr` in the `size` bytes that begin at `base`.
fn offset_in(base: u64, size: u64, addr: u64, len: u64) -> Result<u64, MemError> {
    addr.checked_add(len).ok_or(MemError::Wrap)?;
    let offset = addr.checked_sub(base).ok_or(MemError::Bounds)?;
    let end = offset.checked_add(len).ok_or(MemError::Wrap)?;
    if end > size {
        return Err(MemError::Bounds);
    }
    Ok(offset)
}

impl Store {
    /// Offset of the bytes in the store, if they are inside.
    fn bound(&self, addr: u64, len: u64) -> Result<u64, MemError> {
        match self {
            Store::User {
                iova, len: size, ..
            } => offset_in(*iova, *size, addr, len),
            Store::Dma(_) => addr.checked_add(len).map(|_| addr).ok_or(MemError::Wrap),
            Store::Fast(fast) => {
                let (iova, size) = (&fast.iova, &fast.len);
                let (iova, size) = (iova.load(Ordering::Relaxed), size.load(Ordering::Relaxed));
                offset_in(iova, size, addr, len)
            }
        }
    }
}

/// Offset of the bytes in a page list, if they are inside.
fn list_offset(list: &PageList, addr: u64, len: u64) -> Result<u64, MemError> {
    offset_in(list.iova(), list.len(), addr, len)
}

#[kunit_tests(rsiw_region)]
mod tests {
    use super::*;

    /// A key of index 5, and the next one of the same region.
    const KEY: u32 = 5 << 8 | 7;
    const NEXT: u32 = 5 << 8 | 8;
    const OURS: PdId = PdId::of_test(1);
    const OTHER: PdId = PdId::of_test(2);

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

    /// Key, domain and right come first, in this order: what a peer learns is of its own doing.
    #[test]
    fn keys_domains_and_rights_are_checked() -> Result {
        let region = KBox::pin_init(Region::new(OURS, Region::fast_store(1)?), GFP_KERNEL)?;
        let check = |key, pd, len, need| region.check(key, pd, 0, len, need);
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
        let region = KBox::pin_init(Region::new(OURS, Region::fast_store(1)?), GFP_KERNEL)?;
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

    /// The peer takes back what its own QP registered, with a right for peers, and nothing else.
    #[test]
    fn peers_invalidate_what_was_given_to_them() -> Result {
        let region = KBox::pin_init(Region::new(OURS, Region::fast_store(1)?), GFP_KERNEL)?;
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
