// SPDX-License-Identifier: GPL-2.0

//! State that lives as long as a module: the reclaim workqueue, and the barriers at the end.
//!
//! Pinned pages, shared rings and table entries must be released in process context, although their
//! last user may be in any context. They are passed to a workqueue, which must have run all of it
//! before the code of a module that made them goes away. [`Core`] is such a module's share of that
//! workqueue.

use crate::work::{Workqueue, WqFlags};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};
use kernel::{
    prelude::*,
    sync::rcu,
    time::{delay::fsleep, Delta},
};
use rdma_bindings as bindings;

/// The reclaim workqueue, a box, or null. It is there before [`USERS`] counts the first [`Core`],
/// and goes after the last.
static RECLAIM: AtomicPtr<Workqueue> = AtomicPtr::new(ptr::null_mut());

/// How many [`Core`]s share the workqueue: one for each module that uses this crate, which may be
/// linked into a module of its own.
static USERS: AtomicUsize = AtomicUsize::new(0);

/// A module's share of the crate's own state.
///
/// The module's `init` creates it first, and the module structure keeps it in its last field, so
/// that it is dropped after everything else. Memory that is released through it can be allocated
/// only while it exists.
pub struct Core(());

impl Core {
    /// Sets the crate up for a module. Errors: `ENOMEM`. Context: sleeping.
    pub fn new() -> Result<Self> {
        let flags = WqFlags::MEM_RECLAIM | WqFlags::UNBOUND;
        let one_more = |users| (users != 0).then_some(users + 1);
        let (done, none) = (Ordering::Relaxed, ptr::null_mut());
        while USERS
            .fetch_update(Ordering::Acquire, done, one_more)
            .is_err()
        {
            let queue = Workqueue::new(c"kext_reclaim", flags, 0)?;
            let queue = KBox::into_raw(KBox::new(queue, GFP_KERNEL)?);
            let order = Ordering::Release;
            if RECLAIM.compare_exchange(none, queue, order, done).is_ok() {
                USERS.store(1, Ordering::Release);
                break;
            }
            // Another module is just here, or its `drop` is about to clear the pointer.
            // SAFETY: The pointer is of `into_raw` above, and was not published.
            drop(unsafe { KBox::from_raw(queue) });
            fsleep(Delta::from_millis(1));
        }
        Ok(Self(()))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let queue = RECLAIM.load(Ordering::Acquire);
        // A release may cause another one, but chains are short: a table's entry, its region, the
        // region's pinned pages.
        for _ in 0..4 {
            rcu_barrier();
            // SAFETY: The workqueue is there as long as `USERS` counts `self`.
            unsafe { (*queue).flush() };
        }
        if USERS.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        RECLAIM.store(ptr::null_mut(), Ordering::Release);
        // A thread that has loaded the pointer has queued its item by the end of the grace period.
        // By the end of the barrier, items that wait for a grace period are queued. Destroying the
        // queue runs them all.
        // SAFETY: Sleeping is allowed here: modules are unloaded in process context.
        unsafe { bindings::synchronize_rcu() };
        rcu_barrier();
        // SAFETY: The pointer is of `into_raw` in `new`. No `Core` is left that uses it, and who
        // has found it in `RECLAIM` has finished.
        drop(unsafe { KBox::from_raw(queue) });
    }
}

/// Whether releases can be deferred, that is, whether there is a [`Core`].
pub fn is_up() -> bool {
    !RECLAIM.load(Ordering::Relaxed).is_null()
}

/// Calls `f` with the reclaim workqueue; `None` if there is none. Context: any; `f` must not sleep.
pub(crate) fn with_reclaim<R>(f: impl FnOnce(&Workqueue) -> R) -> Option<R> {
    let _guard = rcu::read_lock();
    let queue = RECLAIM.load(Ordering::Acquire);
    if queue.is_null() {
        return None;
    }
    // SAFETY: `Core::drop` clears the pointer and waits for a grace period before it destroys the
    // queue. The RCU read lock is held as long as the reference is used.
    Some(f(unsafe { &*queue }))
}

/// Queues `work` on the reclaim workqueue after a grace period. Returns false if there is no such
/// workqueue. Context: any.
///
/// # Safety
///
/// `work` must be initialised and not queued, and stay allocated until it has run.
pub unsafe fn queue_rcu_work(work: *mut bindings::rcu_work) -> bool {
    let _guard = rcu::read_lock();
    let queue = RECLAIM.load(Ordering::Acquire);
    if queue.is_null() {
        return false;
    }
    // SAFETY: `Core::drop` clears the pointer, waits for a grace period and for the RCU callbacks
    // registered before its end, and only then destroys the queue. This call is under the RCU read
    // lock, and its work is queued by such a callback. `work` is valid by the contract of this
    // function.
    unsafe { bindings::queue_rcu_work((*queue).as_raw(), work) }
}

/// Waits until the reclaim workqueue has run all work that is queued. The module must not be
/// ending.
#[cfg(CONFIG_KUNIT = "y")]
pub fn flush() {
    let queue = RECLAIM.load(Ordering::Acquire);
    if !queue.is_null() {
        // SAFETY: Tests run after the module was loaded, and before it can be unloaded.
        unsafe { (*queue).flush() };
    }
}

/// Waits for all RCU callbacks of this module. Wraps `rcu_barrier()`. Context: sleeping.
pub fn rcu_barrier() {
    // SAFETY: No requirements but the context: to sleep in atomic context is a bug, not unsound.
    unsafe { bindings::rcu_barrier() };
}
