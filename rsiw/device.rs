// SPDX-License-Identifier: GPL-2.0

//! One RDMA device: what its queue pairs, regions and connections share.

use crate::{
    cm::Cm,
    counters::Counters,
    mem::{Access, MemError, Region},
    pd::PdId,
    qp::Qp,
    verbs::Rsiw,
};
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::{prelude::*, sync::Arc};
use rdma::{DeviceHandle, IdTable, OnceHandle, Workqueue};

/// Limits that the device announces and keeps.
pub(crate) mod max {
    pub(crate) const QP: u32 = 128 * 1024;
    pub(crate) const CQ: u32 = 128 * 1024;
    pub(crate) const SRQ: u32 = 64 * 1024;
    pub(crate) const PD: u32 = 128 * 1024;
    pub(crate) const MR: u32 = 1024 * 1024;
    pub(crate) const CONTEXT: u32 = 64 * 1024;
    /// Requests of one queue.
    pub(crate) const QP_WR: u32 = 32 * 1024;
    pub(crate) const SRQ_WR: u32 = 256 * 1024;
    pub(crate) const CQE: u32 = 2 * 1024 * 1024;
    /// RDMA Reads under way, each direction of a connection.
    pub(crate) const READS: u32 = 128;
    /// Pages of a fast registration.
    pub(crate) const FAST_PAGES: u32 = 2048;
}

/// How many objects of a kind there may be, and are.
pub(crate) struct Limit {
    used: AtomicU32,
    max: u32,
}

/// One object of the count; gives its place back when dropped.
pub(crate) struct Held(Arc<Limit>);

impl Limit {
    fn new(max: u32) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                used: AtomicU32::new(0),
                max,
            },
            GFP_KERNEL,
        )?)
    }
}

impl Limit {
    /// Takes a place. Errors: `ENOMEM` when all are taken.
    pub(crate) fn hold(self: &Arc<Self>) -> Result<Held> {
        let max = self.max;
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < max).then_some(n + 1)
            })
            .map_err(|_| ENOMEM)?;
        Ok(Held(self.clone()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The device's counts.
pub(crate) struct Limits {
    pub(crate) context: Arc<Limit>,
    pub(crate) pd: Arc<Limit>,
    pub(crate) cq: Arc<Limit>,
    pub(crate) qp: Arc<Limit>,
    pub(crate) srq: Arc<Limit>,
    pub(crate) mr: Arc<Limit>,
}

/// Work queues of the module, shared by its devices.
pub(crate) struct Queues {
    /// Runs tx where the caller cannot: short, and part of writeback's way.
    pub(crate) tx: Workqueue,
    /// Runs connection setup and teardown.
    pub(crate) cm: Workqueue,
}

/// See the module's documentation.
pub(crate) struct Device {
    handle: OnceHandle<Rsiw>,
    /// The first bytes of the only GID, which are unique.
    pub(crate) gid: [u8; 6],
    /// Regions by STag index.
    pub(crate) regions: IdTable<Region>,
    /// Queue pairs by number.
    pub(crate) qps: IdTable<Qp>,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    /// Connections and listeners.
    pub(crate) cm: Cm,
    pub(crate) queues: Arc<Queues>,
}

impl Device {
    /// The state of a device that will be registered. Context: sleeping.
    pub(crate) fn new(gid: [u8; 6], queues: Arc<Queues>) -> Result<Arc<Self>> {
        let dev = Self {
            handle: OnceHandle::new(),
            gid,
            regions: IdTable::new(1, (1 << 24) - 1)?,
            // The wire never carries them; 24 bits is what tools expect.
            qps: IdTable::new(2, (1 << 24) - 1)?,
            limits: Limits {
                context: Limit::new(max::CONTEXT)?,
                pd: Limit::new(max::PD)?,
                cq: Limit::new(max::CQ)?,
                qp: Limit::new(max::QP)?,
                srq: Limit::new(max::SRQ)?,
                mr: Limit::new(max::MR)?,
            },
            counters: Counters::new(),
            cm: Cm::new()?,
            queues,
        };
        Ok(Arc::new(dev, GFP_KERNEL)?)
    }

    /// Called once, before the core calls anything else.
    pub(crate) fn attach(&self, handle: DeviceHandle<Rsiw>) {
        self.handle.set(handle);
    }

    /// The registration, while it lasts.
    pub(crate) fn handle(&self) -> Option<&DeviceHandle<Rsiw>> {
        self.handle.get()
    }

    /// The EUI-64 that is made of the GID's 48 bits.
    pub(crate) fn guid(&self) -> [u8; 8] {
        let g = &self.gid;
        [g[0] ^ 2, g[1], g[2], 0xff, 0xfe, g[3], g[4], g[5]]
    }

    /// Looks up the region that `key` names and checks that `len` bytes at `addr` may be used for
    /// `need` by a QP in domain `pd`. Context: any.
    pub(crate) fn region(
        &self,
        key: u32,
        pd: PdId,
        addr: u64,
        len: u32,
        need: Access,
    ) -> Result<Arc<Region>, MemError> {
        let region = self.regions.get(key >> 8).ok_or(MemError::Invalid)?;
        region.check(key, pd, addr, len, need)?;
        Ok(region)
    }
}
