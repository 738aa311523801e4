// SPDX-License-Identifier: GPL-2.0

//! One RDMA device: the state that its queue pairs, regions and connections share. How a device
//! ends is in `rdma::device` (its registry), in `rnic` and, before that, in `Driver::leaving`,
//! which `verbs` implements.

use crate::{
    counters::{Counters, Terminates},
    limit::Limit,
    mem::Regions,
    rests::Rests,
    settings::Settings,
};
use kernel::{prelude::*, sync::Arc};
use kext::{Workqueue, WqFlags};
use net::{Keyring, PagePool};
use rdma::{Consumer, DeviceHandle, DeviceName, OnceHandle};

/// The driver, as the RDMA core knows it. Its operations are in `verbs`.
pub(crate) struct Rsiw;

/// The limits of a device, which it announces and enforces.
pub(crate) mod max {
    pub(crate) const QP: u32 = 128 * 1024;
    pub(crate) const CQ: u32 = 128 * 1024;
    pub(crate) const SRQ: u32 = 64 * 1024;
    pub(crate) const PD: u32 = 128 * 1024;
    pub(crate) const MR: u32 = 1024 * 1024;
    pub(crate) const CONTEXT: u32 = 64 * 1024;
    /// Requests of one queue.
    pub(crate) const QP_WR: u32 = 32 * 1024;
    /// Scatter/gather elements of a kernel consumer's send request, 16 octets of the queue each. A
    /// process' send request, and any receive, has room for [`MAX_SGE`](crate::abi::MAX_SGE).
    /// Processes are told the lesser number.
    pub(crate) const SEND_SGE: u32 = 16;
    pub(crate) const SRQ_WR: u32 = 256 * 1024;
    pub(crate) const CQE: u32 = 2 * 1024 * 1024;
    /// RDMA Reads under way, in each direction of a connection.
    pub(crate) const READS: u32 = 128;
    /// Pages of a fast registration.
    pub(crate) const FAST_PAGES: u32 = 2048;
}

/// The numbers of a device's objects, with their limits.
pub(crate) struct Limits {
    pub(crate) context: Arc<Limit>,
    pub(crate) pd: Arc<Limit>,
    pub(crate) cq: Arc<Limit>,
    pub(crate) qp: Arc<Limit>,
    pub(crate) srq: Arc<Limit>,
    pub(crate) mr: Arc<Limit>,
}

/// Work queues of the module, shared by its devices.
pub(crate) struct Workqueues {
    /// Receives bulk data, and what waits for a late receive. Of high priority, as it takes over
    /// the work of a softirq.
    pub(crate) rx: Workqueue,
    /// Runs tx for callers that cannot. Writeback may depend on it.
    pub(crate) tx: Workqueue,
    /// When work of these two leaves a processor to processes.
    pub(crate) rests: Rests,
    /// Sets up and ends connections of kernel consumers, and those that have no consumer yet. Runs
    /// the timers of tx.
    pub(crate) cm: Workqueue,
    /// Sets up and ends connections of processes, and runs the timers of their tx.
    pub(crate) cm_of_processes: Workqueue,
}

impl Workqueues {
    /// Makes the work queues of the module. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // One item at a time on each CPU, so that all wait while one rests. (Under memory pressure
        // a rescuer runs one at a time as well, so none may wait for another one anyway.)
        let of_high_priority = WqFlags::PERCPU | WqFlags::HIGHPRI | WqFlags::MEM_RECLAIM;
        Ok(Self {
            // It runs on the CPU where the data came in. It is dropped, and so drained, before
            // `tx`, which it wakes.
            rx: Workqueue::new(c"rsiw_rx", of_high_priority, 1)?,
            // It runs on the CPU that queued the work, whose cache has the data.
            tx: Workqueue::new(c"rsiw_tx", of_high_priority, 1)?,
            rests: Rests::new()?,
            // Connections are set up concurrently; those that need an order have one (`cm::Order`).
            cm: Workqueue::new(c"rsiw_cm", WqFlags::UNBOUND | WqFlags::MEM_RECLAIM, 0)?,
            cm_of_processes: Workqueue::new(
                c"rsiw_cm_user",
                WqFlags::UNBOUND | WqFlags::MEM_RECLAIM,
                0,
            )?,
        })
    }

    /// The work queue that sets up and ends connections of `consumer`. A step of a process'
    /// connection may wait for the process' threads, which may be without a processor for a long
    /// time. On a queue of their own such steps hold up no connection that is the kernel's or
    /// nobody's yet. Context: any.
    pub(crate) fn cm_of(&self, consumer: Consumer) -> &Workqueue {
        match consumer {
            Consumer::Process => &self.cm_of_processes,
            Consumer::Kernel => &self.cm,
        }
    }
}

/// The shared state of one RDMA device.
pub(crate) struct Device {
    handle: OnceHandle<Rsiw>,
    /// The first bytes of the only GID. They are unique.
    pub(crate) gid: [u8; 6],
    /// Regions by STag index.
    pub(crate) regions: Regions,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) terminates_sent: Terminates,
    pub(crate) terminates_received: Terminates,
    pub(crate) workqueues: Arc<Workqueues>,
    pub(crate) settings: Settings,
    /// Pre-shared keys for TLS, of all devices.
    pub(crate) keys: Arc<Keyring>,
    /// The pool that takes the pages that tx has filled, of all queue pairs.
    pub(crate) tx_pages: Arc<PagePool>,
}

impl Device {
    /// The device's name at this moment, for tracepoints; none before it is registered. Context:
    /// any.
    pub(crate) fn name(&self) -> DeviceName {
        self.handle()
            .map(|handle| handle.name())
            .unwrap_or_default()
    }

    /// Makes the state of a device that is not registered yet. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        gid: [u8; 6],
        workqueues: Arc<Workqueues>,
        keys: Arc<Keyring>,
    ) -> Result<Arc<Self>> {
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
            terminates_sent: Terminates::new(),
            terminates_received: Terminates::new(),
            workqueues,
            settings: Settings::of_parameters()?,
            keys,
            tx_pages: PagePool::new()?,
        };
        Ok(Arc::new(dev, GFP_KERNEL)?)
    }

    /// Sets the registration. Called once, before the RDMA core calls anything else.
    pub(crate) fn attach(&self, handle: DeviceHandle<Rsiw>) {
        self.handle.set(handle);
    }

    /// The device's registration, while it lasts. Context: any.
    pub(crate) fn handle(&self) -> Option<&DeviceHandle<Rsiw>> {
        self.handle.get()
    }

    /// The EUI-64 that is made of the GID's 48 bits.
    pub(crate) fn guid(&self) -> [u8; 8] {
        let g = &self.gid;
        [g[0] ^ 2, g[1], g[2], 0xff, 0xfe, g[3], g[4], g[5]]
    }
}
