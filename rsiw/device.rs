// SPDX-License-Identifier: GPL-2.0

//! One RDMA device: what its queue pairs, regions and connections share.

use crate::{counters::Counters, limit::Limit, mem::Regions};
use kernel::{prelude::*, sync::Arc};
use kext::{Workqueue, WqFlags};
use net::PagePool;
use rdma::{Consumer, DeviceHandle, OnceHandle};

/// The driver, as the RDMA core sees it; what it does is in `verbs`.
pub(crate) struct Rsiw;

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
    /// Scatter/gather elements of a kernel consumer's send request, each 16 octets of the queue. A
    /// process' has room for [`MAX_SGE`](crate::abi::MAX_SGE); so have all receives, and a process is told
    /// of the lesser number.
    pub(crate) const SEND_SGE: u32 = 16;
    pub(crate) const SRQ_WR: u32 = 256 * 1024;
    pub(crate) const CQE: u32 = 2 * 1024 * 1024;
    /// RDMA Reads under way, each direction of a connection.
    pub(crate) const READS: u32 = 128;
    /// Pages of a fast registration.
    pub(crate) const FAST_PAGES: u32 = 2048;
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
    /// Receives what comes in bulk: of high priority, as what it takes the place of is softirq code.
    pub(crate) rx: Workqueue,
    /// The same in turn with processes, and looks for receives that come late.
    pub(crate) rx_in_turn: Workqueue,
    /// Runs tx where the caller cannot. Part of writeback's way.
    pub(crate) tx: Workqueue,
    /// The same in turn with processes, and what nobody waits for.
    pub(crate) tx_in_turn: Workqueue,
    /// Runs connection setup and teardown of what is the kernel's, or nobody's yet.
    pub(crate) cm: Workqueue,
    /// The same of processes' connections.
    pub(crate) cm_of_processes: Workqueue,
}

impl Queues {
    /// Those of a module. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            // Where the data came in. Drained before tx, which it wakes.
            rx: Workqueue::new(
                c"rsiw_rx",
                WqFlags::PERCPU | WqFlags::HIGHPRI | WqFlags::MEM_RECLAIM,
                0,
            )?,
            rx_in_turn: Workqueue::new(
                c"rsiw_rx_in_turn",
                WqFlags::PERCPU | WqFlags::MEM_RECLAIM,
                0,
            )?,
            // On the CPU that woke it: the data is in its cache.
            tx: Workqueue::new(
                c"rsiw_tx",
                WqFlags::PERCPU | WqFlags::HIGHPRI | WqFlags::MEM_RECLAIM,
                0,
            )?,
            tx_in_turn: Workqueue::new(
                c"rsiw_tx_in_turn",
                WqFlags::PERCPU | WqFlags::MEM_RECLAIM,
                0,
            )?,
            // Side by side; what needs an order has one (`cm::Order`).
            cm: Workqueue::new(c"rsiw_cm", WqFlags::UNBOUND | WqFlags::MEM_RECLAIM, 0)?,
            cm_of_processes: Workqueue::new(
                c"rsiw_cm_user",
                WqFlags::UNBOUND | WqFlags::MEM_RECLAIM,
                0,
            )?,
        })
    }

    /// Where tx is to run at this moment. Context: any.
    pub(crate) fn tx_now(&self) -> &Workqueue {
        match in_turn() {
            true => &self.tx_in_turn,
            false => &self.tx,
        }
    }

    /// Where the connections of a consumer are set up and ended. Steps of a process' connection may
    /// wait for its threads, which may be a long time without a processor; no step of the kernel's
    /// connections, or of one that is nobody's yet, waits behind such a one.
    pub(crate) fn cm_of(&self, consumer: Consumer) -> &Workqueue {
        match consumer {
            Consumer::Process => &self.cm_of_processes,
            Consumer::Kernel => &self.cm,
        }
    }
}

/// Whether what is queued at this moment is to run in turn with processes: it has a high priority most
/// of the time, as a process that looks for its completions again and again would otherwise take half
/// of a processor from the work that makes them. For an eighth of the time it has not, so that neither
/// a peer that reads or writes nor another process with much to send has a processor for itself. Of tx
/// and bulk receive at the same time: one of high priority would take the other's turns. Context: any.
pub(crate) fn in_turn() -> bool {
    const PERIOD_MS: u32 = 512;
    const IN_TURN_MS: u32 = PERIOD_MS / 8;
    kext::jiffies_ms() % PERIOD_MS < IN_TURN_MS
}

/// See the module's documentation.
pub(crate) struct Device {
    handle: OnceHandle<Rsiw>,
    /// The first bytes of the only GID, which are unique.
    pub(crate) gid: [u8; 6],
    /// Regions by STag index.
    pub(crate) regions: Regions,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) queues: Arc<Queues>,
    /// The port mapper may choose local ports.
    pub(crate) ports_mapped: bool,
    /// Where all tx actors leave the pages that they have filled.
    pub(crate) tx_pages: Arc<PagePool>,
}

impl Device {
    /// The state of a device that will be registered. Context: sleeping.
    pub(crate) fn new(gid: [u8; 6], queues: Arc<Queues>, ports_mapped: bool) -> Result<Arc<Self>> {
        let dev = Self {
            handle: OnceHandle::new(),
            gid,
            regions: Regions::new()?,
            limits: Limits {
                context: Limit::new(max::CONTEXT)?,
                pd: Limit::new(max::PD)?,
                cq: Limit::new(max::CQ)?,
                qp: Limit::new(max::QP)?,
                srq: Limit::new(max::SRQ)?,
                mr: Limit::new(max::MR)?,
            },
            counters: Counters::new(),
            queues,
            ports_mapped,
            tx_pages: PagePool::new()?,
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
}
