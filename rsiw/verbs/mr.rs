// SPDX-License-Identifier: GPL-2.0

//! Verbs on memory regions.

use super::context::has;
use crate::{
    abi::{feature, RegMrReq, RegMrResp},
    device::{max, Device, Rsiw},
    mem::{window::Window, Access, Region, Store},
    pd::{Pd, PdId},
    quota::Held,
};
use kernel::{prelude::*, sync::Arc, types::ScopeGuard};
use rdma::{
    AllMemory, Consumer, Details, DmaBufMr, LocalDmaKey, MrOps, MrType, MwType, NewLocalDmaKey,
    NewMr, Rereg, SgMap, Udata, UserMemory, UserMr,
};

/// The driver's object of the RDMA core's MR, or of its MW.
pub(crate) struct Mr {
    pub(crate) region: Arc<Region>,
    dev: Arc<Device>,
    /// The rights that a process or kernel consumer has given it; `None` for a fast registration
    /// and a window.
    access: Option<Access>,
    /// One of the device's regions. A region and the one that takes its place are one together.
    held: Arc<Held>,
}

impl Mr {
    /// Takes the region out of the table, so that no key finds it. Then waits for accesses that
    /// found it before. Context: sleeping.
    fn end(&self) {
        self.dev.regions.table().remove(self.region.stag() >> 8);
        self.region.destroy();
    }
}

//= 5040-8.1.1-9: An RNIC MUST choose the value of STags in
//# 24 random bits, and 8 of the consumer's choice
/// Enters a region of `store` into the table, at a random index, with `key` as the low bits of its
/// STag. Enables it with the rights `access`, if given.
fn publish(
    dev: &Arc<Device>,
    pd: &Pd,
    held: Arc<Held>,
    store: Store,
    key: u8,
    access: Option<Access>,
) -> Result<NewMr<Mr>> {
    let flags = match &store {
        Store::User { .. } | Store::Window(_) => Consumer::Process.flags(),
        Store::Dma(_) | Store::Local(_) | Store::Fast(_) => Consumer::Kernel.flags(),
    };
    let region = Arc::pin_init(Region::new(pd.id(), store), flags)?;
    // On failure the pages are released before the verb returns, not when the last reference goes.
    let undo = ScopeGuard::new_with_data(region.clone(), |region| region.destroy());
    // The index is random, so that a peer cannot guess the STags of others.
    let reserved = dev.regions.table().reserve_random()?;
    let stag = reserved.id() << 8 | u32::from(key);
    region.set_stag(stag);
    let mr = Arc::new(
        Mr {
            region: region.clone(),
            dev: dev.clone(),
            access,
            held,
        },
        flags,
    )?;
    reserved.publish(region.clone(), flags)?;
    undo.dismiss();
    if let Some(access) = access {
        region.enable(stag, access);
    }
    Ok(NewMr {
        mr,
        lkey: stag,
        rkey: stag,
    })
}

/// Enters the region of the device's local DMA key into the table, where it stays as long as the
/// device. It is in no list of regions, and in no limit. It gives peers no right, though they may
/// learn the key: as the sink of an RDMA Read it is on the wire. Context: sleeping. Errors:
/// `ENOMEM`.
pub(super) fn local_dma_key(dev: &Device, new: NewLocalDmaKey) -> Result<LocalDmaKey> {
    let reserved = dev.regions.table().reserve_random()?;
    let stag = reserved.id() << 8 | u32::from(random_key());
    let key = new.choose(stag);
    let region = Arc::pin_init(Region::new(PdId::KERNEL, Store::Local(key)), GFP_KERNEL)?;
    region.enable(stag, Access::LOCAL_WRITE);
    reserved.publish(region, GFP_KERNEL)?;
    Ok(key)
}

impl MrOps<Rsiw> for Mr {
    //= 5040-8.1.1-5: An RNIC MUST provide a mechanism for the ULP
    //= 5040-8.1.1-6: An RNIC MUST provide a mechanism for the ULP
    //= 5040-8.1.2-4: Privileged Resource Manager MUST verify that the Non-Privileged ULP
    //= 5041-8.3-1: DDP MUST provide a mechanism for the ULP to
    //= 5041-8.3-2: DDP MUST provide a mechanism for the ULP to
    //= 5041-8.3-3: DDP MUST provide a mechanism for the ULP to
    //# deviates: as 5041-8.2-3
    //= 5041-8.3.1-5: An RNIC MUST provide a mechanism for the ULP
    //= 5041-8.3.1-6: An RNIC MUST provide a mechanism for the ULP
    //= 5041-8.3.2-5: Privileged Resource Manager MUST verify that the Non-Privileged ULP
    /// Registers a process' memory. Context: sleeping. Errors: `EINVAL` for an empty or wrapping
    /// range, `EOPNOTSUPP` for unknown rights, `ENOMEM`; those of pinning the memory.
    fn of_process(
        dev: &rdma::Device<Rsiw>,
        pd: &Arc<Pd>,
        req: &UserMr,
        udata: &mut Udata<'_, Rsiw>,
    ) -> Result<NewMr<Mr>> {
        let args: RegMrReq = udata.request()?;
        udata.require_out(core::mem::size_of::<RegMrResp>())?;
        let access = Access::of_region(
            req.access.without(rdma::Access::ZERO_BASED),
            pd.more_rights(),
        )?;
        let iova = first_address(req.access, req.iova, req.length)?;
        let dev = &dev.data().dev;
        let held = hold(dev, Consumer::Process)?;
        let store = Store::User {
            umem: req.pin()?,
            iova,
            len: req.length,
        };
        let new = publish(dev, pd, held, store, args.stag_key, Some(access))?;
        let resp = RegMrResp {
            stag: new.lkey,
            pad: 0,
        };
        if let Err(e) = udata.respond(&resp) {
            new.mr.end();
            return Err(e);
        }
        Ok(new)
    }

    /// Registers a dma-buf. Context: sleeping. Errors: `EINVAL` for an empty or wrapping range;
    /// `EOPNOTSUPP` for unknown rights; `ENOMEM`; those of mapping the buffer.
    fn of_dma_buf(dev: &rdma::Device<Rsiw>, pd: &Arc<Pd>, req: &DmaBufMr) -> Result<NewMr<Mr>> {
        let access = Access::of_region(req.access, pd.more_rights())?;
        let iova = first_address(req.access, req.iova, req.length)?;
        let dev = &dev.data().dev;
        let held = hold(dev, Consumer::Process)?;
        let store = Store::User {
            umem: req.map()?,
            iova,
            len: req.length,
        };
        // The provider takes no part in this verb, and so chooses no key.
        publish(dev, pd, held, store, random_key(), Some(access))
    }

    /// Makes a kernel consumer's region of all memory. Context: sleeping.
    fn of_kernel(
        dev: &rdma::Device<Rsiw>,
        pd: &Arc<Pd>,
        access: rdma::Access,
        mem: AllMemory,
    ) -> Result<NewMr<Mr>> {
        let access = Access::from_verbs(access)?;
        let dev = &dev.data().dev;
        let held = hold(dev, Consumer::Kernel)?;
        publish(dev, pd, held, Store::Dma(mem), random_key(), Some(access))
    }

    /// Makes the region that takes the place of this one: with other memory, rights, or domain.
    /// Context: sleeping.
    ///
    /// It is another region with another STag, and the old one ends as by deregistration: so
    /// accesses under way have no rules of their own, and what a peer does by the old STag never
    /// reaches the new memory.
    ///
    /// New memory is pinned before the old is released, which needs room for both in
    /// `RLIMIT_MEMLOCK`. If only rights and domain change, the pages go over to the new region as
    /// they are; but if they were pinned for reading, and the new rights include writing, the same
    /// addresses of the process are pinned anew.
    ///
    /// # Errors
    ///
    /// Those of [`Mr::of_process`]; `EINVAL` also for new rights to write to a dma-buf, for
    /// `ZERO_BASED` without new memory, and for a region that an earlier call has left without
    /// memory; `EBUSY` for one to which windows are bound. None can be bound meanwhile. After
    /// `ENOMEM` this region may have no memory any more, or have none bound any more. After any
    /// other error it is as it was.
    fn rereg(
        self: &Arc<Self>,
        dev: &rdma::Device<Rsiw>,
        pd: &Arc<Pd>,
        req: &Rereg,
    ) -> Result<NewMr<Mr>> {
        let region = &self.region;
        if !region.bar_windows() {
            return Err(EBUSY);
        }
        let undo = ScopeGuard::new(|| region.admit_windows());
        let (start, is_writable) = region.pinned().ok_or(EINVAL)?;
        let asked = match (req.access, self.access) {
            (Some(access), _) => access,
            (None, old) => rdma::Access::from_bits(old.ok_or(EINVAL)?.bits()),
        };
        let rights = match req.memory {
            Some(_) => asked.without(rdma::Access::ZERO_BASED),
            None if asked.contains(rdma::Access::ZERO_BASED) => return Err(EINVAL),
            None => asked,
        };
        let access = Access::of_region(rights, pd.more_rights())?;
        let store = match req.memory {
            Some(UserMemory {
                start,
                length,
                iova,
            }) => Store::User {
                iova: first_address(asked, iova, length)?,
                umem: req.pin(start, length, asked)?,
                len: length,
            },
            None if asked.is_writable() && !is_writable => {
                let (iova, len) = region.fixed().ok_or(EINVAL)?;
                Store::User {
                    umem: req.pin(start.ok_or(EINVAL)?, len, asked)?,
                    iova,
                    len,
                }
            }
            None => region.take_store().ok_or(EINVAL)?,
        };
        // The key is the process' choice, the index a new one.
        let key = region.stag() as u8;
        let held = self.held.clone();
        let new = publish(&dev.data().dev, pd, held, store, key, Some(access))?;
        undo.dismiss();
        Ok(new)
    }

    /// Makes a region of up to `most` pages, or elements with gaps, that a kernel consumer
    /// registers by work request. Context: sleeping. Errors: `EINVAL` for too many, `ENOMEM`.
    fn alloc(
        dev: &rdma::Device<Rsiw>,
        pd: &Arc<Pd>,
        mr_type: MrType,
        most: u32,
    ) -> Result<NewMr<Mr>> {
        if most > max::FAST_PAGES {
            return Err(EINVAL);
        }
        let dev = &dev.data().dev;
        let held = hold(dev, Consumer::Kernel)?;
        publish(
            dev,
            pd,
            held,
            Region::fast_store(mr_type, most)?,
            random_key(),
            None,
        )
    }

    fn map_sg(self: &Arc<Self>, map: &mut SgMap<'_>) -> Result {
        self.region.map(map)
    }

    fn describe(self: &Arc<Self>, details: &mut Details<'_>) -> Result {
        let status = self.region.status();
        details.word(c"kind", status.kind)?;
        details.number(c"pinned_pages", status.pinned_pages)?;
        details.number(c"valid", status.valid.into())?;
        for (name, right) in [
            (c"local_write", Access::LOCAL_WRITE),
            (c"remote_write", Access::REMOTE_WRITE),
            (c"remote_read", Access::REMOTE_READ),
            (c"remote_atomic", Access::REMOTE_ATOMIC),
        ] {
            details.number(name, status.access.allows(right).into())?;
        }
        details.number(c"registered_by", status.registered_by_qpn.into())
    }

    /// Makes a memory window. Context: sleeping. Errors: `ENOMEM`; `EOPNOTSUPP` for a process whose
    /// provider cannot bind it.
    fn window(
        dev: &rdma::Device<Rsiw>,
        pd: &Arc<Pd>,
        mw_type: MwType,
        udata: &Udata<'_, Rsiw>,
    ) -> Result<NewMr<Mr>> {
        let needed = match mw_type {
            MwType::One => feature::MW_TYPE_1,
            MwType::Two => feature::EXTENDED,
        };
        if !has(udata, needed)? {
            return Err(rdma::errno::unsupported());
        }
        let dev = &dev.data().dev;
        let held = hold(dev, Consumer::Process)?;
        publish(dev, pd, held, Window::store(mw_type)?, random_key(), None)
    }

    //= 5040-8.1.1-7: An RNIC MUST ensure that the network interface can
    //= 5041-8.3.1-7: An RNIC MUST ensure that the network interface can
    //= 5040-8.1.1-5, 5040-8.1.1-6, 5041-8.3-1, 5041-8.3-2, 5041-8.3.1-5, 5041-8.3.1-6
    fn dereg(self: &Arc<Self>) -> Result {
        if !self.region.bar_windows() {
            return Err(EBUSY);
        }
        self.end();
        Ok(())
    }
}

/// Counts one more region or window. Context: sleeping. Errors: `ENOMEM` if there are as many as
/// allowed.
fn hold(dev: &Device, consumer: Consumer) -> Result<Arc<Held>> {
    Ok(Arc::new(dev.quotas.mr.hold()?, consumer.flags())?)
}

/// The address of the first of `len` bytes for work requests: `iova`, or 0 if `access` says so.
/// Errors: `EINVAL` for an empty or wrapping range.
fn first_address(access: rdma::Access, iova: u64, len: u64) -> Result<u64> {
    let iova = if access.contains(rdma::Access::ZERO_BASED) {
        0
    } else {
        iova
    };
    if len == 0 || iova.checked_add(len).is_none() {
        return Err(EINVAL);
    }
    Ok(iova)
}

/// The first key of a kernel consumer's region. The consumer changes it with each registration
/// (`ib_update_fast_reg_key`).
fn random_key() -> u8 {
    kext::random_u32() as u8
}
