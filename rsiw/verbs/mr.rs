// SPDX-License-Identifier: GPL-2.0

//! Verbs on memory regions.

use crate::{
    abi::{RegMrReq, RegMrResp},
    device::{max, Device, Rsiw},
    limit::Held,
    mem::{Access, Region, Store},
    pd::Pd,
};
use kernel::{prelude::*, sync::Arc, types::ScopeGuard};
use rdma::{Consumer, Details, KernelMemory, MrOps, NewMr, SgMap, Udata, UserMr};

/// The driver's object of the RDMA core's MR.
pub(crate) struct Mr {
    pub(crate) region: Arc<Region>,
    dev: Arc<Device>,
    _held: Held,
}

impl Mr {
    /// Takes the region out of the table, so that no key finds it. Then waits for accesses that
    /// found it before. Context: sleeping.
    fn end(&self) {
        self.dev.regions.table().remove(self.region.stag() >> 8);
        self.region.destroy();
    }
}

/// Enters a region of `store` into the table, at a random index, with `key` as the low bits of its
/// STag. Enables it with the rights `access`, if given.
fn publish(
    dev: &Arc<Device>,
    pd: &Pd,
    held: Held,
    store: Store,
    key: u8,
    access: Option<Access>,
) -> Result<NewMr<Mr>> {
    let flags = match &store {
        Store::User { .. } => Consumer::Process.flags(),
        Store::Dma(_) | Store::Fast(_) => Consumer::Kernel.flags(),
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
            _held: held,
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

impl MrOps<Rsiw> for Mr {
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
        let access = Access::from_verbs(req.access.without(rdma::Access::ZERO_BASED))?;
        let iova = match req.access.contains(rdma::Access::ZERO_BASED) {
            true => 0,
            false => req.iova,
        };
        if req.length == 0 || iova.checked_add(req.length).is_none() {
            return Err(EINVAL);
        }
        let dev = &dev.data().dev;
        let held = dev.limits.mr.hold()?;
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

    /// Makes a kernel consumer's region of all memory. Context: sleeping.
    fn of_kernel(
        dev: &rdma::Device<Rsiw>,
        pd: &Arc<Pd>,
        access: rdma::Access,
        mem: KernelMemory,
    ) -> Result<NewMr<Mr>> {
        let access = Access::from_verbs(access)?;
        let dev = &dev.data().dev;
        let held = dev.limits.mr.hold()?;
        publish(dev, pd, held, Store::Dma(mem), random_key(), Some(access))
    }

    /// Makes a region of up to `max_sg` pages that a kernel consumer registers by work request.
    /// Context: sleeping. Errors: `EINVAL` for too many pages, `ENOMEM`.
    fn alloc(dev: &rdma::Device<Rsiw>, pd: &Arc<Pd>, max_sg: u32) -> Result<NewMr<Mr>> {
        if max_sg > max::FAST_PAGES {
            return Err(EINVAL);
        }
        let dev = &dev.data().dev;
        let held = dev.limits.mr.hold()?;
        publish(
            dev,
            pd,
            held,
            Region::fast_store(max_sg)?,
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
        ] {
            details.number(name, status.access.allows(right).into())?;
        }
        details.number(c"registered_by", status.stream.into())
    }

    fn dereg(self: &Arc<Self>) -> Result {
        self.end();
        Ok(())
    }
}

/// The first key of a kernel consumer's region. The consumer changes it with each registration
/// (`ib_update_fast_reg_key`).
fn random_key() -> u8 {
    kext::random_u32() as u8
}
