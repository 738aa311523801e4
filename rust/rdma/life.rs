// SPDX-License-Identifier: GPL-2.0

//! What lives as long as the module: the reclaim workqueue and the last barriers.
//!
//! Some things must be given back in process context although their last user may be anywhere
//! (pinned pages, shared rings, table entries). They are handed to a workqueue, which must have
//! run dry before the module's code goes away. [`Core`] owns it.

use crate::work::{Workqueue, WqFlags};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{prelude::*, sync::rcu, workqueue::Queue};
use rdma_bindings as bindings;

/// The reclaim workqueue of the one [`Core`], or null.
static RECLAIM: AtomicPtr<bindings::workqueue_struct> = AtomicPtr::new(ptr::null_mut());

/// The crate's own state; there is at most one.
///
/// Create it first in the module's `init` and keep it as the module structure's last field, so
/// that it is dropped when everything else is. Memory that is released through it cannot be
/// allocated before or after.
pub struct Core {
    queue: Workqueue,
}

impl Core {
    /// Sets the crate up. Fails with `EBUSY` if that was done already, or `ENOMEM`. Context: sleeping.
    pub fn new() -> Result<Self> {
        let flags = WqFlags::MEM_RECLAIM | WqFlags::UNBOUND;
        let queue = Workqueue::new(c"rsiw_reclaim", flags, 0)?;
        RECLAIM
            .compare_exchange(
                ptr::null_mut(),
                queue.as_raw(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .map_err(|_| EBUSY)?;
        Ok(Self { queue })
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // What is released may release something else in turn, but not in long chains: a table's
        // entry, a region, its pinned pages.
        for _ in 0..4 {
            rcu_barrier();
            self.queue.flush();
        }
        RECLAIM.store(ptr::null_mut(), Ordering::Relaxed);
        // Whoever has loaded the pointer has queued its item after the grace period, and after the
        // barrier what waits for one has queued itself; destroying the queue runs all of it.
        // SAFETY: Sleeping is allowed here: modules are unloaded in process context.
        unsafe { bindings::synchronize_rcu() };
        rcu_barrier();
    }
}

/// Whether releases can be deferred, that is, whether there is a [`Core`].
pub(crate) fn is_up() -> bool {
    !RECLAIM.load(Ordering::Relaxed).is_null()
}

/// Calls `f` with the reclaim workqueue. Context: any; `f` must not sleep.
pub(crate) fn with_reclaim<R>(f: impl FnOnce(&Queue) -> R) -> Option<R> {
    let _guard = rcu::read_lock();
    let queue = RECLAIM.load(Ordering::Acquire);
    if queue.is_null() {
        return None;
    }
    // SAFETY: `Core::drop` waits for a grace period between clearing the pointer and destroying
    // the queue, and the RCU read lock is held as long as the reference is used.
    Some(f(unsafe { Queue::from_raw(queue) }))
}

/// Queues `work` on the reclaim workqueue after a grace period. `false`: there is none any more.
/// Context: any.
///
/// # Safety
///
/// `work` is initialised, not queued, and stays allocated until it has run.
pub(crate) unsafe fn queue_rcu_work(work: *mut bindings::rcu_work) -> bool {
    let _guard = rcu::read_lock();
    let queue = RECLAIM.load(Ordering::Acquire);
    if queue.is_null() {
        return false;
    }
    // SAFETY: `Core::drop` lets the queue live until a grace period and the callbacks that were
    // registered before its end are over; `work` by the requirement.
    unsafe { bindings::queue_rcu_work(queue, work) }
}

/// Waits for what is queued on the reclaim workqueue. The module must not be ending.
#[cfg(CONFIG_KUNIT)]
pub(crate) fn flush() {
    let queue = RECLAIM.load(Ordering::Acquire);
    if !queue.is_null() {
        // SAFETY: Tests run when the module has been loaded, before it can be unloaded.
        unsafe { bindings::__flush_workqueue(queue) };
    }
}

/// Waits for all RCU callbacks of this module. Wraps `rcu_barrier()`. Context: sleeping.
pub fn rcu_barrier() {
    // SAFETY: No requirements but the context; sleeping in atomic context is a bug, not unsound.
    unsafe { bindings::rcu_barrier() };
}

/// Whether this is process context (`in_task()`): not an interrupt, softirq or NMI. Locks and
/// preemption are not considered.
pub fn in_task() -> bool {
    // SAFETY: Only looks at the state of the CPU.
    unsafe { bindings::in_task() }
}

/// A random number that cannot be guessed (`get_random_u32()`). Context: any.
pub fn random_u32() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u32() }
}

/// As [`random_u32`], of 64 bits.
pub fn random_u64() -> u64 {
    // SAFETY: No requirements.
    unsafe { bindings::get_random_u64() }
}

/// Milliseconds of the kernel's clock of ticks (`jiffies`), with a tick's precision; it wraps. Context: any.
pub fn jiffies_ms() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::jiffies_ms() }
}

/// The number of CPUs that are online (`num_online_cpus()`).
pub fn online_cpus() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::num_online_cpus() }
}
