// SPDX-License-Identifier: GPL-2.0

//! One RDMA device: the state that its queue pairs, regions and connections share. How a device
//! ends is in `rdma::device` (its registry), in `rnic` and, before that, in `Driver::leaving`,
//! which `verbs` implements.

use crate::{
    counters::{Counters, Terminates},
    cpu_share::{CpuShare, Run},
    mem::Regions,
    quota::Quota,
    settings::Settings,
};
use core::sync::atomic::AtomicU32;
use kernel::{prelude::*, sync::Arc};
use kext::{Workqueue, WqFlags};
use net::{Keyring, PagePool};
use rdma::{Consumer, DeviceHandle, DeviceName, OnceHandle, Protocol};

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
    /// Scatter/gather elements of a kernel consumer's send request, 16 bytes of the queue each. A
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
pub(crate) struct Quotas {
    pub(crate) context: Arc<Quota>,
    pub(crate) pd: Arc<Quota>,
    pub(crate) cq: Arc<Quota>,
    pub(crate) qp: Arc<Quota>,
    pub(crate) srq: Arc<Quota>,
    pub(crate) mr: Arc<Quota>,
}

/// One for kernel consumers, and for what has no consumer yet; and one for processes.
///
/// Work for a process' queue pair may wait for a thread of the process, which may be preempted with
/// a lock of that queue pair, or of its socket, and be without a processor for a long time. On a
/// queue of their own such work items hold up nobody but processes.
pub(crate) struct ByConsumer<T> {
    kernel: T,
    processes: T,
}

impl<T> ByConsumer<T> {
    /// The one for `consumer`. Context: any.
    pub(crate) fn of(&self, consumer: Consumer) -> &T {
        match consumer {
            Consumer::Process => &self.processes,
            Consumer::Kernel => &self.kernel,
        }
    }
}

impl ByConsumer<Workqueue> {
    /// Waits for all items that are queued now. Context: sleeping, and not in one of them.
    pub(crate) fn flush(&self) {
        self.kernel.flush();
        self.processes.flush();
    }
}

/// Work items of processes' rx, and as many of their tx, that may be under way at a time on a
/// processor. Most often one runs and the others wait for it. If so many wait for threads without a
/// processor, those of other processes wait there as well.
const PROCESSES_ACTIVE: u32 = 32;

/// Work queues of the module, shared by its devices.
pub(crate) struct Workqueues {
    /// Receives bulk data, and what waits for a late receive. Of high priority, as it takes over
    /// the work of a softirq.
    pub(crate) rx: ByConsumer<Workqueue>,
    /// Runs tx for callers that cannot. Writeback may depend on it.
    pub(crate) tx: ByConsumer<Workqueue>,
    /// When work of these two leaves a processor to processes.
    cpu_share: ByConsumer<CpuShare>,
    /// Sets up and ends connections, and runs the timers of tx.
    pub(crate) cm: ByConsumer<Workqueue>,
}

impl Workqueues {
    /// Makes the work queues of the module. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // One item at a time on each CPU: none of a kernel consumer's waits for long, and a rescuer
        // runs one at a time as well.
        let high = WqFlags::PERCPU | WqFlags::HIGHPRI | WqFlags::MEM_RECLAIM;
        let unbound = WqFlags::UNBOUND | WqFlags::MEM_RECLAIM;
        Ok(Self {
            // It runs on the CPU where the data came in. It is dropped, and so drained, before
            // `tx`, which it wakes.
            rx: ByConsumer {
                kernel: Workqueue::new(c"rsiw_rx", high, 1)?,
                processes: Workqueue::new(c"rsiw_rx_user", high, PROCESSES_ACTIVE)?,
            },
            // It runs on the CPU that queued the work, whose cache has the data.
            tx: ByConsumer {
                kernel: Workqueue::new(c"rsiw_tx", high, 1)?,
                processes: Workqueue::new(c"rsiw_tx_user", high, PROCESSES_ACTIVE)?,
            },
            cpu_share: ByConsumer {
                kernel: CpuShare::new()?,
                processes: CpuShare::new()?,
            },
            // Connections are set up concurrently; those that need an order have one (`cm::Order`).
            cm: ByConsumer {
                kernel: Workqueue::new(c"rsiw_cm", unbound, 0)?,
                processes: Workqueue::new(c"rsiw_cm_user", unbound, 0)?,
            },
        })
    }

    /// Begins a run of a worker of `rx` or `tx` for `consumer`, after a rest if one is due. Kernel
    /// consumers' workers have an account of their own, as the time in which a worker waits for a
    /// lock of a process counts. Context: a worker that is bound to its processor, without locks.
    pub(crate) fn begin(&self, consumer: Consumer) -> Option<Run<'_>> {
        self.cpu_share.of(consumer).begin()
    }
}

/// The shared state of one RDMA device.
pub(crate) struct Device {
    handle: OnceHandle<Rsiw>,
    /// What programs see.
    pub(crate) protocol: Protocol,
    /// The first bytes of the only GID of an iWARP device. They are unique there.
    pub(crate) gid: [u8; 6],
    /// Regions by STag index.
    pub(crate) regions: Regions,
    pub(crate) quotas: Quotas,
    pub(crate) counters: Counters,
    pub(crate) terminates_sent: Terminates,
    pub(crate) terminates_received: Terminates,
    pub(crate) workqueues: Arc<Workqueues>,
    pub(crate) settings: Settings,
    /// Pre-shared keys for TLS, of all devices.
    pub(crate) keys: Arc<Keyring>,
    /// The pool that takes the pages that tx has filled, of all queue pairs.
    pub(crate) tx_pages: Arc<PagePool>,
    /// When a queue pair was connected last, in milliseconds of a clock that wraps.
    pub(crate) connected_at: AtomicU32,
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
        protocol: Protocol,
        gid: [u8; 6],
        workqueues: Arc<Workqueues>,
        keys: Arc<Keyring>,
    ) -> Result<Arc<Self>> {
        let dev = Self {
            handle: OnceHandle::new(),
            protocol,
            gid,
            regions: Regions::new()?,
            quotas: Quotas {
                context: Quota::new(max::CONTEXT)?,
                pd: Quota::new(max::PD)?,
                cq: Quota::new(max::CQ)?,
                qp: Quota::new(max::QP)?,
                srq: Quota::new(max::SRQ)?,
                mr: Quota::new(max::MR)?,
            },
            counters: Counters::new(),
            terminates_sent: Terminates::new(),
            terminates_received: Terminates::new(),
            workqueues,
            settings: Settings::of_parameters()?,
            keys,
            tx_pages: PagePool::new()?,
            // Long ago.
            connected_at: AtomicU32::new(kext::jiffies_ms().wrapping_add(1 << 31)),
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

    /// The EUI-64 that is made of the GID's 48 bits. Two devices of a network device have
    /// different ones: librdmacm may find a device by its GUID alone.
    pub(crate) fn guid(&self) -> [u8; 8] {
        let g = &self.gid;
        let [a, b] = match self.protocol {
            Protocol::Iwarp => [0xff, 0xfe],
            Protocol::Roce => *b"rc",
        };
        [g[0] ^ 2, g[1], g[2], a, b, g[3], g[4], g[5]]
    }

    /// Whether programs connect its queue pairs themselves.
    pub(crate) fn is_rc(&self) -> bool {
        self.protocol == Protocol::Roce
    }
}
