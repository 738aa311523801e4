// SPDX-License-Identifier: GPL-2.0

//! A driver's own workqueues, and what the kernel crate's work items lack.
//!
//! - [`Workqueue`]: allocated, flushed and destroyed by its owner.
//! - [`cancel_work_sync`]: cancels a [`kernel::workqueue::Work`].
//! - [`DelayedWork`] ([`delayed`]): a delayed work item that can be moved and cancelled.

pub mod delayed;

pub use delayed::{DelayedWork, DelayedWorkItem};

use core::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
    workqueue::{HasWork, Queue, RawWorkItem, Work, WorkItem},
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

    /// Queues the work item `ID` of an object, if it is not queued already. The object is kept
    /// until the item has begun to run. Wraps `queue_work()`. Context: any.
    pub fn enqueue<W, const ID: u64>(&self, object: W)
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        let _ = self.queue().enqueue(object);
    }

    /// The queue, as the kernel crate knows it. Not for delayed work of that crate's: dropping the
    /// workqueue does not wait for its timer.
    fn queue(&self) -> &Queue {
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

/// Takes `item`, the work item `ID` of `object`, off its queue, and waits for it to end if it runs.
/// Returns true if it was queued and will not run. (`item` shows that it is no delayed one, which
/// must be cancelled in another way.) Wraps `cancel_work_sync()`. Context: sleeping, not in the
/// item itself.
pub fn cancel_work_sync<T, const ID: u64>(
    object: &Arc<T>,
    item: impl for<'a> FnOnce(&'a T) -> &'a Work<T, ID>,
) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    let item = ptr::from_ref(item(object));
    let object = Arc::as_ptr(object).cast_mut();
    // SAFETY: The pointer is of an `Arc`, so it is valid.
    let work = unsafe { T::raw_get_work(object) };
    if !ptr::eq(work, item) {
        pr_err!("a work item was cancelled for an object that it is not in\n");
        return false;
    }
    // SAFETY: The item is in the object, which is valid, and it was initialised with the object.
    let cancelled = unsafe { bindings::cancel_work_sync(Work::raw_get(work).cast()) };
    if cancelled {
        // SAFETY: `Queue::enqueue` of an `Arc<T>` passes the reference to the item by `into_raw`,
        // and the item's call takes it. This item was queued, and its call will not come.
        drop(unsafe { Arc::from_raw(object) });
    }
    cancelled
}

#[kunit_tests(kext_workqueue)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, AtomicIsize};
    use kernel::{impl_has_work, new_work};

    /// An object with a work item that runs while it is held, and then until nothing has it queued
    /// again.
    #[pin_data]
    struct Thing {
        held: AtomicBool,
        began: AtomicU32,
        ended: AtomicU32,
        #[pin]
        work: Work<Thing>,
    }

    impl_has_work! {
        impl HasWork<Self> for Thing { self.work }
    }

    impl WorkItem for Thing {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            this.began.fetch_add(1, Ordering::Relaxed);
            while this.held.load(Ordering::Relaxed) || this.is_queued() {
                fsleep(Delta::from_millis(1));
            }
            this.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Thing {
        /// As `work_pending()`.
        fn is_queued(&self) -> bool {
            const PENDING: isize = 1 << bindings::work_bits_WORK_STRUCT_PENDING_BIT;
            // SAFETY: The item is valid, and the kernel accesses this word of it atomically.
            let data = unsafe {
                let work = Work::raw_get(&self.work);
                AtomicIsize::from_ptr((&raw mut (*work).data.counter).cast())
            };
            data.load(Ordering::Relaxed) & PENDING != 0
        }
    }

    fn thing() -> Result<Arc<Thing>> {
        let init = pin_init!(Thing {
            held: AtomicBool::new(false),
            began: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            work <- new_work!("kext_test_work"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// A workqueue that runs one item at a time.
    fn queue() -> Result<Workqueue> {
        Workqueue::new(c"kext_test", WqFlags::UNBOUND, 1)
    }

    #[test]
    fn flush_and_drop_wait_for_items() -> Result {
        let (queue, thing) = (queue()?, thing()?);
        queue.enqueue(thing.clone());
        queue.flush();
        assert_eq!(thing.ended.load(Ordering::Relaxed), 1);
        queue.enqueue(thing.clone());
        drop(queue);
        assert_eq!(thing.ended.load(Ordering::Relaxed), 2);
        assert!(!cancel_work_sync(&thing, |thing| &thing.work));
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }

    /// An item that is cancelled before it runs does not run; that of another object has the queue.
    #[test]
    fn a_queued_item_is_cancelled() -> Result {
        let (queue, first, second) = (queue()?, thing()?, thing()?);
        first.held.store(true, Ordering::Relaxed);
        queue.enqueue(first.clone());
        queue.enqueue(second.clone());
        // It is queued once.
        queue.enqueue(second.clone());
        assert!(cancel_work_sync(&second, |thing| &thing.work));
        assert!(!cancel_work_sync(&second, |thing| &thing.work));
        first.held.store(false, Ordering::Relaxed);
        queue.flush();
        assert_eq!(second.began.load(Ordering::Relaxed), 0);
        assert!(Arc::into_unique_or_drop(second).is_some());
        assert!(Arc::into_unique_or_drop(first).is_some());
        Ok(())
    }

    /// Cancelling waits for an item that runs, and takes back one that was queued meanwhile.
    #[test]
    fn cancelling_waits() -> Result {
        let (queue, thing) = (queue()?, thing()?);
        thing.held.store(true, Ordering::Relaxed);
        queue.enqueue(thing.clone());
        while thing.began.load(Ordering::Relaxed) == 0 {
            fsleep(Delta::from_millis(1));
        }
        queue.enqueue(thing.clone());
        thing.held.store(false, Ordering::Relaxed);
        assert!(cancel_work_sync(&thing, |thing| &thing.work));
        assert_eq!(thing.began.load(Ordering::Relaxed), 1);
        assert_eq!(thing.ended.load(Ordering::Relaxed), 1);
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }
}
