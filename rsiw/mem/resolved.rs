// SPDX-License-Identifier: GPL-2.0

//! A region that a key was resolved to, and accesses to it that last for several copies.

use super::{
    region::{offset_in, Region, Store},
    Access, MemError, Rights,
};
use crate::pd::PdId;
use iwarp::{rdmap::AtomicOp, SharedByte};
use kernel::sync::Arc;
use kext::revocable::OwnedGuard;
use rdma::{KernelMemory, LocalDmaKey, LocalSge, Reader};

/// The result of resolving a key: a region, checked for that key and the right `need`. Each copy
/// checks both again, and so does a reader when it is made.
#[derive(Clone)]
pub(crate) struct ResolvedMr {
    region: Arc<Region>,
    rights: Rights,
    /// First address and length, if they never change.
    fixed: Option<(u64, u64)>,
    /// The device's local DMA key, if the key is that one. By it an element of a kernel consumer's
    /// request has its own memory. Accesses to that are not counted, as the region lasts as long as
    /// the device: all kernel consumers would count them in one place.
    local: Option<LocalDmaKey>,
}

impl ResolvedMr {
    /// Checks that `len` bytes at `addr` of `region` may be used by `rights` in `pd`.
    pub(super) fn new(
        region: Arc<Region>,
        rights: Rights,
        pd: PdId,
        addr: u64,
        len: u32,
    ) -> Result<Self, MemError> {
        region.check(rights, pd, addr, len)?;
        let (fixed, local) = (region.fixed(), region.local());
        Ok(Self {
            region,
            rights,
            fixed,
            local,
        })
    }

    /// Checks that another range may be used in the same way. Context: any.
    pub(crate) fn check(&self, pd: PdId, addr: u64, len: u32) -> Result<(), MemError> {
        let Rights { key, need, .. } = self.rights;
        if self.covers(key, pd, (addr, len), need) {
            return Ok(());
        }
        self.region.check(self.rights, pd, addr, len)
    }

    /// Whether `key`, in the domain `pd`, gives the right `need` to this range, too. Context: any.
    #[inline]
    pub(crate) fn covers(&self, key: u32, pd: PdId, (addr, len): (u64, u32), need: Access) -> bool {
        let rights = self.rights;
        if rights.key != key || rights.need != need {
            return false;
        }
        let region = &self.region;
        match self.fixed {
            Some((base, size)) => {
                pd.may_use(region.pd())
                    && region.valid(key, need).is_ok()
                    && offset_in(base, size, addr, u64::from(len)).is_ok()
            }
            None => region.check(rights, pd, addr, len).is_ok(),
        }
    }

    /// The key.
    pub(crate) fn key(&self) -> u32 {
        self.rights.key
    }

    /// Whether it was resolved for the right `need`.
    #[inline]
    pub(crate) fn is_for(&self, need: Access) -> bool {
        self.rights.need == need
    }

    /// Whether [`Self::write`] of these bytes copies all of them or none. It does not check all of
    /// them first where a fast registration is copied piece by piece. Context: any.
    #[inline]
    pub(crate) fn writes_whole(&self, pd: PdId, addr: u64, len: u32) -> bool {
        self.fixed.is_some() || self.check(pd, addr, len).is_ok()
    }

    /// Whether the region is a fast registration, which its consumer may invalidate.
    pub(crate) fn is_fast(&self) -> bool {
        self.region.is_fast()
    }

    /// Copies `dst.len()` bytes at `offset` of `sge`, for whose key this was resolved, out of the
    /// region. Context: any.
    #[inline]
    pub(crate) fn read(
        &self,
        access: &mut HeldAccess,
        sge: &LocalSge,
        offset: u32,
        dst: &mut [u8],
    ) -> Result<(), MemError> {
        let (region, rights) = (&self.region, self.rights);
        match self.local {
            Some(key) => region.read_from(memory(key, sge)?, rights, offset.into(), dst),
            None => access.with(region, |store| {
                region.read(store, rights, address(sge, offset), dst)
            }),
        }
    }

    /// A reader of the `len` bytes at `offset` of `sge`, as [`Self::read`], whose key and right are
    /// checked now, once for all of them; `access` is kept until it [ends](HeldAccess::end). `None`
    /// for a fast registration. Context: any.
    #[inline]
    pub(crate) fn reader<'a>(
        &'a self,
        access: &'a mut HeldAccess,
        sge: &'a LocalSge,
        offset: u32,
        len: usize,
    ) -> Result<Option<Reader<'a>>, MemError> {
        let (region, rights) = (&self.region, self.rights);
        match self.local {
            Some(key) => region
                .reader_of(memory(key, sge)?, rights, offset.into(), len)
                .map(Some),
            None => region.reader(access.of(region)?, rights, address(sge, offset), len),
        }
    }

    /// The first of the `len` bytes at `offset` of `sge`, for whose key this was resolved, as
    /// memory that TCP can refer to: that of a kernel consumer's request, until it completes.
    /// `None` of a region with an STag, and if TCP cannot refer to it. Context: any.
    pub(crate) fn page(
        &self,
        sge: &LocalSge,
        offset: u32,
        len: usize,
    ) -> Result<Option<net::PageSpan>, MemError> {
        let Some(key) = self.local else {
            return Ok(None);
        };
        self.region.valid(self.rights.key, self.rights.need)?;
        Ok(memory(key, sge)?.page(offset.into(), len))
    }

    /// Copies `src` to `offset` of `sge`, as [`Self::read`]. Context: any.
    #[inline]
    pub(crate) fn write_sge(
        &self,
        access: &mut HeldAccess,
        sge: &LocalSge,
        offset: u32,
        src: &[SharedByte],
    ) -> Result<(), MemError> {
        let (region, rights) = (&self.region, self.rights);
        match self.local {
            Some(key) => region.write_to(memory(key, sge)?, rights, offset.into(), src, false),
            None => self.write(access, address(sge, offset), src, false),
        }
    }

    /// Copies `src` to `addr` of the region, which a peer has named. If `ends`, the last word is
    /// seen only after all that this thread has written before. Context: any.
    #[inline]
    pub(crate) fn write(
        &self,
        access: &mut HeldAccess,
        addr: u64,
        src: &[SharedByte],
        ends: bool,
    ) -> Result<(), MemError> {
        let (region, rights) = (&self.region, self.rights);
        access.with(region, |store| region.write(store, rights, addr, src, ends))
    }

    /// Executes `op` on the 8 bytes at `addr` of the region, which a peer has named; returns the
    /// value before. Context: any.
    pub(crate) fn atomic(&self, addr: u64, op: AtomicOp) -> Result<u64, MemError> {
        let (region, rights) = (&self.region, self.rights);
        let store = region.store().try_access().ok_or(MemError::Invalid)?;
        region.atomic(&store, rights, addr, op)
    }

    /// Takes the STag out of use, unless the region has another one by now. Context: any.
    pub(crate) fn invalidate(&self) {
        self.region.invalidate(self.rights.key);
    }
}

/// The memory of `sge`, under the local DMA key.
#[inline]
fn memory(key: LocalDmaKey, sge: &LocalSge) -> Result<&KernelMemory, MemError> {
    sge.memory(key).ok_or(MemError::Domain)
}

/// The address at `offset` of `sge`. It does not wrap: the bounds of `sge` were checked when its
/// key was resolved.
#[inline]
fn address(sge: &LocalSge, offset: u32) -> u64 {
    sge.addr().wrapping_add(offset.into())
}

/// The access to a region's bytes that copies share which follow each other.
///
/// Counting an access waits for the stores of the copy before it, which costs as much as a tenth of
/// a segment's copy. So for a message of several segments the last region's access is kept from one
/// copy to the next. That only puts off the end of a deregistration: each copy, and each reader
/// when it is made, checks that the STag is still valid. Whoever has one drops it, or
/// [ends](Self::end) it, after a bounded piece of work in which it does not sleep.
pub(crate) struct HeldAccess {
    holds: bool,
    held: Option<OwnedGuard<Region, Store>>,
}

impl HeldAccess {
    /// Each copy is an access of its own, until [`Self::hold`] or a reader.
    #[inline]
    pub(crate) const fn none() -> Self {
        Self {
            holds: false,
            held: None,
        }
    }

    /// Keeps the accesses that begin from now on.
    #[inline]
    pub(crate) fn hold(&mut self) {
        self.holds = true;
    }

    /// Ends the access that was kept.
    pub(crate) fn end(&mut self) {
        *self = Self::none();
    }

    /// Whether the access that is kept is one to `region`.
    #[inline]
    fn is_of(&self, region: &Arc<Region>) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| Arc::ptr_eq(held.owner(), region))
    }

    /// The bytes of `region`, to which the access is kept.
    #[inline]
    fn of(&mut self, region: &Arc<Region>) -> Result<&Store, MemError> {
        if !self.is_of(region) {
            self.begin(region);
        }
        self.held.as_deref().ok_or(MemError::Invalid)
    }

    /// Begins an access to `region`, if that is possible.
    #[cold]
    fn begin(&mut self, region: &Arc<Region>) {
        self.held = OwnedGuard::new(region.clone(), Region::store);
    }

    /// Calls `copy` with the bytes of `region`.
    #[inline]
    fn with<R>(
        &mut self,
        region: &Arc<Region>,
        copy: impl FnOnce(&Store) -> Result<R, MemError>,
    ) -> Result<R, MemError> {
        let counted;
        let store = if self.holds || self.is_of(region) {
            self.of(region)?
        } else {
            counted = region.store().try_access().ok_or(MemError::Invalid)?;
            &counted
        };
        // The only call of it, which is compiled into this function.
        copy(store)
    }
}
