// SPDX-License-Identifier: GPL-2.0

//! One registered memory region.
//!
//! A region is reached through its STag (index and key) from three sides: local requests gather
//! from it or scatter to it, the peer reads or writes it, and kernel consumers register and
//! invalidate it again and again. The bytes sit behind a [`Gate`]: an access enters, checks,
//! copies and leaves, whatever context it runs in; deregistration closes the gate and after that
//! owns the pages. A reference to a region therefore never keeps memory reachable.

use super::{Access, MemError};
use crate::pd::PdId;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use rdma::{
    gate::{Gate, GateGuard},
    lock::SpinLockIrq,
    new_spinlock_irq, KernelMemory, Memory, PageList, SgMap, Umem,
};

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
}

/// See the module's documentation.
pub(crate) struct Region {
    /// Index and key; a kernel consumer changes the key with each registration.
    stag: AtomicU32,
    pd: PdId,
    state: AtomicU32,
    store: Gate<Store>,
}

impl Region {
    /// A region that cannot be used until [`Self::enable`].
    pub(crate) fn new(pd: PdId, store: Store) -> Self {
        Self {
            stag: AtomicU32::new(0),
            pd,
            state: AtomicU32::new(0),
            store: Gate::new(store),
        }
    }

    /// An empty fast-registration store for up to `pages` pages. Context: sleeping.
    pub(crate) fn fast_store(pages: u32) -> Result<Store> {
        let pages = PageList::with_capacity(pages)?;
        Ok(Store::Fast(KBox::pin_init(
            pin_init!(FastStore { pages <- new_spinlock_irq!(pages, "rsiw_fast") }),
            GFP_KERNEL,
        )?))
    }

    /// Makes the STag `stag` usable with the rights `access`.
    pub(crate) fn enable(&self, stag: u32, access: Access) {
        self.stag.store(stag, Ordering::Relaxed);
        // Release: whoever sees the region valid sees its STag and its map.
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

    /// Takes the STag out of use; `false` if it was not in use. Accesses that have begun finish.
    pub(crate) fn disable(&self) -> bool {
        self.state.swap(0, Ordering::AcqRel) & VALID != 0
    }

    /// Whether remote or local invalidation may take it away: only fast registrations.
    pub(crate) fn is_fast(&self) -> bool {
        self.store
            .enter()
            .is_some_and(|s| matches!(&*s, Store::Fast(_)))
    }

    /// Whether a peer that knows the STag may take it back: not a region of all kernel memory.
    pub(crate) fn peer_may_invalidate(&self) -> bool {
        self.store
            .enter()
            .is_some_and(|s| !matches!(&*s, Store::Dma(_)))
    }

    /// The protection domain.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// Ends the region: after this no byte of it is read or written, and pinned pages are given
    /// back. Context: sleeping.
    pub(crate) fn destroy(&self) {
        self.disable();
        drop(self.store.close());
    }

    /// Checks that `len` bytes at `addr` may be used for `need` by a holder of `key` in domain
    /// `pd`. Zero bytes are checked for key and domain only, as there is nothing to bound.
    pub(crate) fn check(
        &self,
        key: u32,
        pd: PdId,
        addr: u64,
        len: u32,
        need: Access,
    ) -> Result<(), MemError> {
        let state = self.state.load(Ordering::Acquire);
        if state & VALID == 0 || self.stag() != key {
            return Err(MemError::Invalid);
        }
        if self.pd != pd {
            return Err(MemError::Domain);
        }
        if !Access::from_verbs(state).allows(need) {
            return Err(MemError::Access);
        }
        if len == 0 {
            return Ok(());
        }
        let store = self.store.enter().ok_or(MemError::Invalid)?;
        store.bound(addr, u64::from(len)).map(drop)
    }

    /// Copies `dst.len()` bytes at `addr` out of the region. Context: any.
    pub(crate) fn read(&self, addr: u64, dst: &mut [u8]) -> Result<(), MemError> {
        let store = self.open()?;
        let len = dst.len() as u64;
        match &*store {
            Store::User { umem, .. } => umem.read(store.bound(addr, len)?, dst),
            Store::Dma(mem) => mem.read(addr, dst),
            Store::Fast(fast) => {
                let pages = fast.pages.lock();
                pages.read(list_offset(&pages, addr, len)?, dst)
            }
        }
        .map_err(|_| MemError::Bounds)
    }

    /// Copies `src` to `addr` of the region. Context: any.
    pub(crate) fn write(&self, addr: u64, src: &[u8]) -> Result<(), MemError> {
        let store = self.open()?;
        let len = src.len() as u64;
        match &*store {
            Store::User { umem, .. } => umem.write(store.bound(addr, len)?, src),
            Store::Dma(mem) => mem.write(addr, src),
            Store::Fast(fast) => {
                let pages = fast.pages.lock();
                pages.write(list_offset(&pages, addr, len)?, src)
            }
        }
        .map_err(|_| MemError::Bounds)
    }

    /// Replaces a fast registration's page list. The consumer promises that the STag is invalid
    /// meanwhile; if it breaks the promise, accesses see either list, never a mix. Context: any.
    pub(crate) fn map(&self, map: &mut SgMap<'_>) -> Result {
        let store = self.store.enter().ok_or(EINVAL)?;
        let Store::Fast(fast) = &*store else {
            return Err(EINVAL);
        };
        let pages = &mut *fast.pages.lock();
        map.map_into(pages).map(drop)
    }

    fn open(&self) -> Result<GateGuard<'_, Store>, MemError> {
        // Validity is checked again at each access: invalidation takes effect at once, also in the
        // middle of a message.
        if self.state.load(Ordering::Acquire) & VALID == 0 {
            return Err(MemError::Invalid);
        }
        self.store.enter().ok_or(MemError::Invalid)
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
            Store::Fast(fast) => list_offset(&fast.pages.lock(), addr, len),
        }
    }
}

/// Offset of the bytes in a page list, if they are inside.
fn list_offset(list: &PageList, addr: u64, len: u64) -> Result<u64, MemError> {
    offset_in(list.iova(), list.len(), addr, len)
}
