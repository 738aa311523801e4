// SPDX-License-Identifier: GPL-2.0

//! A driver's own workqueues, and the work items that run on them.
//!
//! - [`Workqueue`]: allocated, flushed and destroyed by its owner.
//! - [`OwnedWork`] and [`DelayedWork`] ([`item`]): work items inside an object in an `Arc`.

pub mod item;

pub use item::{DelayedWork, DelayedWorkItem, OwnedWork, OwnedWorkItem};

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
    workqueue::Queue,
};
use rdma_bindings as bindings;

/// The properties of a [`Workqueue`]; combine them with `|`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WqFlags(u32);

impl WqFlags {
    /// Workers are bound to the CPU that queues.
    pub const PERCPU: Self = Self(bindings::wq_flags_WQ_PERCPU);
    /// Workers are not bound to a CPU (`WQ_UNBOUND`).
    pub const UNBOUND: Self = Self(bindings::wq_flags_WQ_UNBOUND);
    /// Makes progress under memory pressure (`WQ_MEM_RECLAIM`): for work that writeback may wait
    /// for.
    pub const MEM_RECLAIM: Self = Self(bindings::wq_flags_WQ_MEM_RECLAIM);
    /// Workers of high priority (`WQ_HIGHPRI`).
    pub const HIGHPRI: Self = Self(bindings::wq_flags_WQ_HIGHPRI);
}

impl core::ops::BitOr for WqFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A workqueue. Dropping it runs what is queued and destroys it.
///
/// Dropping it sleeps until each [`DelayedWork`] that is armed on it has run or was cancelled. An
/// item of its own that drops it waits for itself.
pub struct Workqueue {
    raw: NonNull<bindings::workqueue_struct>,
    /// The number of calls of delayed items that will come, or have come and not begun. While there
    /// are any the workqueue is not destroyed.
    armed: Arc<AtomicU32>,
}

// SAFETY: Any thread may use and destroy a workqueue.
unsafe impl Send for Workqueue {}
// SAFETY: Any thread may use a workqueue, and the functions called on a shared one lock it.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Allocates a workqueue. A `max_active` of 0 is the kernel's default. Wraps
    /// `alloc_workqueue()`. Errors: `ENOMEM`. Context: sleeping.
    pub fn new(name: &CStr, flags: WqFlags, max_active: u32) -> Result<Self> {
        let max_active = max_active.try_into()?;
        let armed = Arc::new(AtomicU32::new(0), GFP_KERNEL)?;
        // SAFETY: The format takes one string, and `name` is one. The function copies it.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                flags.0,
                max_active,
                name.as_char_ptr(),
            )
        };
        Ok(Self {
            raw: NonNull::new(queue).ok_or(ENOMEM)?,
            armed,
        })
    }

    /// The queue, for `enqueue` and the kernel crate's work items.
    pub fn queue(&self) -> &Queue {
        // SAFETY: `self` owns the workqueue, and is borrowed as long as the result is used.
        unsafe { Queue::from_raw(self.raw.as_ptr()) }
    }

    /// Waits for all items that are queued now. Wraps `flush_workqueue()`. Context: sleeping, and
    /// not in one of its own items.
    pub fn flush(&self) {
        // SAFETY: `self` owns the workqueue.
        unsafe { bindings::__flush_workqueue(self.raw.as_ptr()) };
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.raw.as_ptr()
    }

    /// The counter of armed items.
    pub(crate) fn armed(&self) -> &Arc<AtomicU32> {
        &self.armed
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // A timer that fires would queue its item on freed memory.
        while self.armed.load(Ordering::Acquire) != 0 {
            fsleep(Delta::from_millis(1));
        }
        // SAFETY: `self` owns the workqueue, nobody borrows it any more, and no timer refers to it.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr()) };
    }
}
