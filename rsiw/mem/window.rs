// SPDX-License-Identifier: GPL-2.0

//! Memory windows, of types 1 and 2B.
//!
//! A window is an entry of the table with an STag and rights of its own, as a region is, but its
//! bytes are a part of those of a process' region, to which a request of a queue pair binds it. A
//! region ends only when no window is bound to it.
//!
//! - One of type 2B is for the peer of the queue pair that has bound it, until its STag is
//!   invalidated, by that peer or locally, or it ends. Then it can be bound anew.
//! - One of type 1 is for the peers of all queue pairs of its domain, any of which binds it, also
//!   while it is bound, or unbinds it. As those peers share its STag, none may invalidate it (RFC
//!   5040 section 8.1.1), nor does a local invalidate. Its `registered_by_qpn` is 0, no queue pair.
//!
//! Each access is made under the window's lock: when it is invalidated, those that have begun are
//! over. Nothing here is on the path of accesses to a region.

use super::{
    atomic,
    region::{offset_in, Region, Store, FAST_PIECE, VALID},
    Access, MemError, Rights,
};
use core::sync::atomic::{AtomicU32, Ordering};
use iwarp::{
    rdmap::{AtomicOp, ATOMIC_LEN},
    SharedByte,
};
use kernel::{prelude::*, sync::Arc};
use kext::lock::{new_spinlock_irq, SpinLockIrq};
use rdma::{Consumer, Memory, MwType, Umem};

/// What the store of a window has.
#[pin_data]
pub(crate) struct Window {
    /// INVARIANT: `None` when the STag is not in use.
    #[pin]
    bound: SpinLockIrq<Option<Bound>>,
    mw_type: MwType,
}

/// What a request to bind asks for.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    /// The region's STag.
    pub(crate) key: u32,
    pub(crate) first: u64,
    pub(crate) len: u64,
    /// Rights of the peer.
    pub(crate) access: Access,
}

/// The part of a region that a window is bound to.
struct Bound {
    region: Hold,
    /// The region's STag. If it is not valid any more, neither is the window.
    key: u32,
    first: u64,
    len: u64,
}

/// The value of `windows` of a region that ends.
const BARRED: u32 = u32::MAX;

/// A region to which a window is bound.
struct Hold(Arc<Region>);

impl Hold {
    fn new(region: Arc<Region>) -> Option<Self> {
        let count = |n: u32| n.checked_add(1).filter(|&n| n != BARRED);
        let windows = &region.windows;
        let counted = windows.fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
        counted.is_ok().then_some(Self(region))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.windows.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Region {
    /// Has no window bound to the region from now on. Returns `false` if there are any: the region
    /// must not end then. Context: any.
    #[must_use]
    pub(crate) fn bar_windows(&self) -> bool {
        let windows: &AtomicU32 = &self.windows;
        let before = windows.compare_exchange(0, BARRED, Ordering::AcqRel, Ordering::Acquire);
        matches!(before, Ok(_) | Err(BARRED))
    }

    /// Undoes a [`Self::bar_windows`] that has returned `true`. Context: any.
    pub(crate) fn admit_windows(&self) {
        self.windows.store(0, Ordering::Release);
    }

    /// Binds this window to a part of `region`, by a request of the QP `qpn`, and makes `stag` its
    /// STag in use. Returns `false` and changes nothing if one of type 2B is in use, or the region
    /// does not allow that. Context: any.
    #[must_use]
    pub(crate) fn bind(&self, stag: u32, region: Arc<Region>, to: &Binding, qpn: u32) -> bool {
        let store = self.store().try_access();
        let Some(Store::Window(window)) = store.as_deref() else {
            return false;
        };
        if self.pd() != region.pd() || self.stag() >> 8 != stag >> 8 {
            return false;
        }
        let Some(region) = Hold::new(region) else {
            return false;
        };
        if region.0.allows_window(to).is_err() {
            return false;
        }
        window.bind(self, stag, region, to, qpn)
    }

    /// Unbinds this window, and makes `stag` its STag, which is not in use. Returns `false` and
    /// changes nothing if it is not one of type 1. Context: any.
    #[must_use]
    pub(crate) fn unbind(&self, stag: u32) -> bool {
        let store = self.store().try_access();
        let Some(Store::Window(window)) = store.as_deref() else {
            return false;
        };
        if window.mw_type != MwType::One || self.stag() >> 8 != stag >> 8 {
            return false;
        }
        window.fenced(self, || {
            self.state.store(0, Ordering::Release);
            self.set_stag(stag);
        });
        true
    }

    /// Checks that a window may be bound to a part of the region.
    fn allows_window(&self, to: &Binding) -> Result<(), MemError> {
        let writing = Access::REMOTE_WRITE.or(Access::REMOTE_ATOMIC);
        let need = match to.access.and(writing) {
            Access::LOCAL_READ => Access::MW_BIND,
            _ => Access::MW_BIND.or(Access::LOCAL_WRITE),
        };
        self.valid(to.key, need)?;
        match self.store().try_access().as_deref() {
            Some(store @ Store::User { .. }) if to.len != 0 => {
                store.bound(to.first, to.len).map(drop)
            }
            _ => Err(MemError::Bounds),
        }
    }
}

impl Window {
    /// The store of a window that is bound to nothing. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn store(mw_type: MwType) -> Result<Store> {
        let window = pin_init!(Self {
            bound <- new_spinlock_irq!(None, "rsiw_window"),
            mw_type,
        });
        KBox::pin_init(window, Consumer::Process.flags()).map(Store::Window)
    }

    /// The rest of [`Region::bind`].
    fn bind(&self, window: &Region, stag: u32, region: Hold, to: &Binding, qpn: u32) -> bool {
        let mut bound = self.bound.lock();
        let of_qpn = match self.mw_type {
            MwType::One => 0,
            MwType::Two if window.state.load(Ordering::Acquire) & VALID != 0 => return false,
            MwType::Two => qpn,
        };
        let before = bound.replace(Bound {
            region,
            key: to.key,
            first: to.first,
            len: to.len,
        });
        window.registered_by_qpn.store(of_qpn, Ordering::Relaxed);
        window.set(stag, to.access.and(Access::REMOTE));
        drop(bound);
        // Outside the lock, as it refers to a region.
        drop(before);
        true
    }

    /// See [`Region::fenced`].
    #[cold]
    pub(super) fn fenced<R>(&self, window: &Region, f: impl FnOnce() -> R) -> R {
        let mut bound = self.bound.lock();
        let result = f();
        let ended = match window.state.load(Ordering::Acquire) & VALID {
            0 => bound.take(),
            _ => None,
        };
        drop(bound);
        // Outside the lock, as it refers to a region.
        drop(ended);
        result
    }

    //= 5040-8.1.1-3: An RNIC MUST ensure that if an STag is
    //# deviates: a memory window of type 2B is limited to one queue pair, and stays for its next
    //# Stream; the scope of other STags is a protection domain
    //= 5041-8.3.1-3: An RNIC MUST ensure that if an STag is
    //# deviates: a memory window of type 2B is limited to one queue pair, and stays for its next
    //# Stream; the scope of other STags is a protection domain
    /// Checks the key, the queue pair and the right, in this order. The window is locked.
    fn admit(&self, window: &Region, rights: Rights) -> Result<(), MemError> {
        window.valid(rights.key, Access::LOCAL_READ)?;
        let is_for = match self.mw_type {
            MwType::One => rights.qpn != 0,
            MwType::Two => window.registered_by_qpn.load(Ordering::Relaxed) == rights.qpn,
        };
        if !is_for {
            return Err(MemError::Domain);
        }
        window.valid(rights.key, rights.need)
    }

    /// Calls `f` with the memory under the window, and with the offset there of `len` bytes at
    /// `addr`, if `rights` and the region give access to them. Context: any; `f` runs with
    /// interrupts disabled.
    #[cold]
    fn with<R>(
        &self,
        window: &Region,
        rights: Rights,
        addr: u64,
        len: u64,
        f: impl FnOnce(&Umem, u64) -> Result<R, MemError>,
    ) -> Result<R, MemError> {
        let bound = self.bound.lock();
        self.admit(window, rights)?;
        let bound = bound.as_ref().ok_or(MemError::Invalid)?;
        offset_in(bound.first, bound.len, addr, len)?;
        let region = &bound.region.0;
        region.valid(bound.key, Access::LOCAL_READ)?;
        let store = region.store().try_access().ok_or(MemError::Invalid)?;
        match &*store {
            Store::User { umem, .. } => f(umem, store.bound(addr, len)?),
            _ => Err(MemError::Invalid),
        }
    }

    /// See [`Region::check`].
    #[cold]
    pub(super) fn check(
        &self,
        window: &Region,
        rights: Rights,
        addr: u64,
        len: u64,
    ) -> Result<(), MemError> {
        if len == 0 {
            let _bound = self.bound.lock();
            return self.admit(window, rights);
        }
        self.with(window, rights, addr, len, |_, _| Ok(()))
    }

    /// See [`Region::read`].
    #[cold]
    pub(super) fn read(
        &self,
        window: &Region,
        rights: Rights,
        mut addr: u64,
        dst: &mut [u8],
    ) -> Result<(), MemError> {
        for dst in dst.chunks_mut(FAST_PIECE) {
            let len = dst.len() as u64;
            self.with(window, rights, addr, len, |umem, offset| {
                umem.read(offset, dst).map_err(|_| MemError::Bounds)
            })?;
            addr = addr.wrapping_add(len);
        }
        Ok(())
    }

    /// See [`Region::write`].
    #[cold]
    pub(super) fn write(
        &self,
        window: &Region,
        rights: Rights,
        mut addr: u64,
        src: &[SharedByte],
        ends: bool,
    ) -> Result<(), MemError> {
        let mut left = src.len();
        for src in src.chunks(FAST_PIECE) {
            left = left.saturating_sub(src.len());
            let (len, last) = (src.len() as u64, ends && left == 0);
            self.with(window, rights, addr, len, |umem, offset| {
                umem.write(offset, src, last).map_err(|_| MemError::Bounds)
            })?;
            addr = addr.wrapping_add(len);
        }
        Ok(())
    }

    /// See [`Region::atomic`].
    #[cold]
    pub(super) fn atomic(
        &self,
        window: &Region,
        rights: Rights,
        addr: u64,
        op: AtomicOp,
    ) -> Result<u64, MemError> {
        let len = ATOMIC_LEN.into();
        self.with(window, rights, addr, len, |umem, offset| {
            // A dma-buf has none, see `Region::atomic`.
            umem.address().ok_or(MemError::Access)?;
            atomic::execute(umem, offset, op)
        })
    }
}

#[kunit_tests(rsiw_window)]
mod tests {
    use super::*;
    use crate::pd::PdId;
    use iwarp::rx::Refusal;
    use rdma::MrType;

    /// Two keys of a window of index 5, and the key of a region.
    const KEY: u32 = 5 << 8 | 7;
    const NEXT: u32 = 5 << 8 | 8;
    const REGION: u32 = 6 << 8 | 1;
    const OURS: PdId = PdId::of_test(1, Consumer::Process);
    const OTHER: PdId = PdId::of_test(2, Consumer::Process);
    const TO: Binding = Binding {
        key: REGION,
        first: 1000,
        len: 100,
        access: Access::REMOTE_READ,
    };

    fn window(mw_type: MwType) -> Result<Arc<Region>> {
        let window = Arc::pin_init(Region::new(OURS, Window::store(mw_type)?), GFP_KERNEL)?;
        window.set_stag(KEY);
        Ok(window)
    }

    /// A region that allows windows, but is no process'.
    fn region(pd: PdId) -> Result<Arc<Region>> {
        let store = Region::fast_store(MrType::Pages, 1)?;
        let region = Arc::pin_init(Region::new(pd, store), GFP_KERNEL)?;
        region.enable(REGION, Access::MW_BIND.or(Access::LOCAL_WRITE));
        Ok(region)
    }

    /// Binds the window, whatever the region is.
    fn bind_any(window: &Region, stag: u32, region: &Arc<Region>) -> bool {
        let (store, hold) = (window.store().try_access(), Hold::new(region.clone()));
        match (store.as_deref(), hold) {
            (Some(Store::Window(w)), Some(hold)) => w.bind(window, stag, hold, &TO, 3),
            _ => false,
        }
    }

    fn rights(key: u32, need: Access, qpn: u32) -> Rights {
        Rights { key, need, qpn }
    }

    //= 5040-8.1.1-3, 5041-8.3.1-3
    /// Key, queue pair, right and bounds are checked in this order.
    #[test]
    fn windows_are_for_one_queue_pair() -> Result {
        let (window, region) = (window(MwType::Two)?, region(OURS)?);
        let read = Access::REMOTE_READ;
        let check = |rights, pd, addr| window.check(rights, pd, addr, 10);
        assert!(check(rights(KEY, read, 3), OURS, 1000) == Err(MemError::Invalid));
        assert!(bind_any(&window, KEY, &region));
        assert!(check(rights(NEXT, read, 3), OURS, 1000) == Err(MemError::Invalid));
        assert!(check(rights(KEY, read, 3), OTHER, 1000) == Err(MemError::Domain));
        assert!(check(rights(KEY, read, 4), OURS, 1000) == Err(MemError::Domain));
        let write = Access::REMOTE_WRITE;
        assert!(check(rights(KEY, write, 4), OURS, 1000) == Err(MemError::Domain));
        let nothing = |rights| window.check(rights, OURS, 0, 0);
        assert!(nothing(rights(KEY, read, 3)) == Ok(()));
        assert!(nothing(rights(KEY, read, 4)) == Err(MemError::Domain));
        assert!(check(rights(KEY, Access::REMOTE_WRITE, 3), OURS, 1000) == Err(MemError::Access));
        assert!(check(rights(KEY, read, 3), OURS, 1091) == Err(MemError::Bounds));
        assert!(check(rights(KEY, read, 3), OURS, u64::MAX) == Err(MemError::Wrap));
        // The consumer itself uses the region, not the window.
        let local = Access::LOCAL_READ;
        assert!(check(rights(KEY, local, 0), OURS, 1000) == Err(MemError::Domain));
        assert!(check(rights(KEY, Access::LOCAL_WRITE, 0), OURS, 1000).is_err());
        // All is right, but there is no memory of a process.
        assert!(check(rights(KEY, read, 3), OURS, 1000) == Err(MemError::Invalid));
        Ok(())
    }

    #[test]
    fn windows_are_bound_once_and_hold_their_region() -> Result {
        let (window, region) = (window(MwType::Two)?, region(OURS)?);
        assert!(bind_any(&window, KEY, &region) && !bind_any(&window, NEXT, &region));
        assert!(!window.unbind(NEXT) && !region.bar_windows());
        assert!(!window.invalidate(NEXT) && !region.bar_windows());
        assert!(window.invalidate(KEY) && !window.invalidate(KEY));
        assert!(region.bar_windows() && region.bar_windows());
        assert!(!bind_any(&window, NEXT, &region));
        region.admit_windows();
        assert!(bind_any(&window, NEXT, &region) && window.stag() == NEXT);
        window.destroy();
        assert!(region.bar_windows());
        Ok(())
    }

    #[test]
    fn peers_invalidate_windows_of_their_queue_pair() -> Result {
        let (window, region) = (window(MwType::Two)?, region(OURS)?);
        let refused = |result| matches!(result, Err(Refusal::CannotInvalidate));
        assert!(bind_any(&window, KEY, &region));
        assert!(refused(window.invalidate_by_peer(KEY, 4, true)));
        assert!(window.invalidate_by_peer(NEXT, 3, true).is_err() && !region.bar_windows());
        assert!(window.invalidate_by_peer(KEY, 3, false).is_ok() && region.bar_windows());
        Ok(())
    }

    /// A window of type 1 is for all queue pairs of its domain, is bound while it is bound, and not
    /// invalidated.
    #[test]
    fn windows_of_type_1_are_for_a_domain() -> Result {
        let (window, first, second) = (window(MwType::One)?, region(OURS)?, region(OURS)?);
        let write = Access::REMOTE_WRITE;
        let check = |key, pd, qpn| window.check(rights(key, Access::REMOTE_READ, qpn), pd, 0, 0);
        assert!(check(KEY, OURS, 3) == Err(MemError::Invalid));
        assert!(bind_any(&window, KEY, &first));
        assert!(check(KEY, OURS, 3) == Ok(()) && check(KEY, OURS, 4) == Ok(()));
        assert!(check(KEY, OURS, 0) == Err(MemError::Domain));
        assert!(check(KEY, OTHER, 3) == Err(MemError::Domain));
        assert!(window.check(rights(KEY, write, 3), OURS, 0, 0) == Err(MemError::Access));
        assert!(!window.may_invalidate(3));
        for alone in [false, true] {
            let result = window.invalidate_by_peer(KEY, 3, alone);
            assert!(matches!(result, Err(Refusal::CannotInvalidate)));
        }
        assert!(bind_any(&window, NEXT, &second) && first.bar_windows());
        assert!(check(KEY, OURS, 3) == Err(MemError::Invalid) && check(NEXT, OURS, 3) == Ok(()));
        assert!(!window.unbind(REGION) && !second.bar_windows());
        assert!(window.unbind(KEY) && second.bar_windows());
        assert!(check(KEY, OURS, 3) == Err(MemError::Invalid) && window.stag() == KEY);
        // It may be unbound already, as it is at first.
        assert!(window.unbind(NEXT) && !second.unbind(REGION));
        Ok(())
    }

    /// What a request asks for is checked before.
    #[test]
    fn regions_allow_windows() -> Result {
        let (window, ours, other) = (window(MwType::Two)?, region(OURS)?, region(OTHER)?);
        let bind = |stag, region: &Arc<Region>| window.bind(stag, region.clone(), &TO, 3);
        // Another domain, another index, and not the memory of a process.
        assert!(!bind(KEY, &other) && !bind(REGION, &ours) && !bind(KEY, &ours));
        assert!(!ours.bind(REGION, window.clone(), &TO, 3));
        let needs = |access| ours.allows_window(&Binding { access, ..TO });
        assert!(needs(Access::REMOTE_WRITE) == Err(MemError::Bounds));
        ours.enable(REGION, Access::MW_BIND);
        assert!(needs(Access::REMOTE_WRITE) == Err(MemError::Access));
        assert!(needs(Access::REMOTE_ATOMIC) == Err(MemError::Access));
        assert!(needs(Access::REMOTE_READ) == Err(MemError::Bounds));
        ours.enable(REGION, Access::LOCAL_WRITE);
        assert!(needs(Access::REMOTE_READ) == Err(MemError::Access));
        assert!(ours.bar_windows() && other.bar_windows());
        Ok(())
    }
}
