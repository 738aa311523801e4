// SPDX-License-Identifier: GPL-2.0

//! Delayed work items that are fields of an object in an `Arc`.
//!
//! ```ignore
//! #[pin_data]
//! struct Conn {
//!     #[pin] timeout: DelayedWork<Conn>,
//! }
//! impl DelayedWorkItem for Conn { fn expire(this: Arc<Self>) { .. } }
//!
//! // In the initialiser: timeout <- new_delayed_work!("Conn::timeout")
//! conn.timeout.arm(&wq, conn.clone(), 5000);
//! ```
//!
//! The kernel crate's can neither be moved to another time nor cancelled.
//!
//! An armed item owns a reference to the object it is in, so the object lives until the item has
//! run. An item runs on one CPU at a time, however often it is armed on its queue. If it is armed
//! while it runs, it runs once more. No allocation in it starts I/O.

use super::Workqueue;
use crate::{lock::SpinLockIrq, noio::noio};
use core::{
    mem, ptr,
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{
    container_of,
    prelude::*,
    sync::{Arc, LockClassKey},
    time::msecs_to_jiffies,
    types::Opaque,
};
use rdma_bindings as bindings;

/// The function of a delayed work item. `ID` tells several items of one object apart.
pub trait DelayedWorkItem<const ID: u64 = 0>: Send + Sync + Sized + 'static {
    /// Runs once for each time that the item's time has come. Context: sleeping.
    fn expire(this: Arc<Self>);
}

/// References that calls of the item own: `count` of them, all to the object that the item is in.
///
/// One belongs to the call that is pending, one to a call that the workqueue has begun but that has
/// not taken its reference yet, and for a moment one to a call that was cancelled. The count and
/// the item's state change together, so that each call finds a reference.
struct Owners<T> {
    object: *const T,
    count: u32,
}

// SAFETY: It stands for `count` times an `Arc<T>`, which is `Send`.
unsafe impl<T: Send + Sync> Send for Owners<T> {}

impl<T> Owners<T> {
    const NONE: Self = Self {
        object: core::ptr::null(),
        count: 0,
    };

    fn put(&mut self, owner: Arc<T>) {
        self.object = Arc::into_raw(owner);
        self.count += 1;
    }

    fn take(&mut self) -> Option<Arc<T>> {
        self.count = self.count.checked_sub(1)?;
        // SAFETY: Each `put` has given a reference to the same object: its callers have checked
        // that it is the one the item is in. At least one of them was left, and this takes it.
        Some(unsafe { Arc::from_raw(self.object) })
    }
}

/// The references of a delayed item's calls, and the workqueue that the calls are on.
struct Armed<T> {
    owners: Owners<T>,
    /// The counter of that workqueue, which counts the calls, too. There if there are any.
    on: Option<Arc<AtomicU32>>,
}

impl<T> Armed<T> {
    const NONE: Self = Self {
        owners: Owners::NONE,
        on: None,
    };

    /// Whether a call may be added on the workqueue of this counter: all calls at a time are on
    /// one.
    fn may_be_on(&self, counter: &Arc<AtomicU32>) -> bool {
        self.owners.count == 0 || self.on.as_ref().is_some_and(|on| Arc::ptr_eq(on, counter))
    }

    fn put(&mut self, owner: Arc<T>, counter: &Arc<AtomicU32>) {
        counter.fetch_add(1, Ordering::Relaxed);
        self.on = Some(counter.clone());
        self.owners.put(owner);
    }

    fn take(&mut self) -> Option<Arc<T>> {
        let owner = self.owners.take()?;
        if let Some(on) = &self.on {
            // Release: who finds the counter zero finds the item off the workqueue, or running.
            on.fetch_sub(1, Ordering::Release);
        }
        Some(owner)
    }
}

/// Whether `item` is a part of `object`, so that a reference to the object keeps the item.
fn is_within<I, T>(item: &I, object: &Arc<T>) -> bool {
    let offset = ptr::from_ref(item)
        .addr()
        .wrapping_sub(Arc::as_ptr(object).addr());
    let inside = mem::size_of::<T>()
        .checked_sub(mem::size_of::<I>())
        .is_some_and(|last| offset <= last);
    if !inside {
        pr_err!("a work item was queued for an object that it is not in\n");
    }
    inside
}

/// A delayed work item (`struct delayed_work`).
#[pin_data]
pub struct DelayedWork<T: DelayedWorkItem<ID>, const ID: u64 = 0> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    #[pin]
    owners: SpinLockIrq<Armed<T>>,
}

// SAFETY: Any thread may arm and cancel delayed work items. The references are under a lock, and
// are `Send`.
unsafe impl<T: DelayedWorkItem<ID>, const ID: u64> Send for DelayedWork<T, ID> {}
// SAFETY: Any thread may arm and cancel delayed work items. The references are under a lock.
unsafe impl<T: DelayedWorkItem<ID>, const ID: u64> Sync for DelayedWork<T, ID> {}

/// Creates a [`DelayedWork`] initialiser with lock classes of its own.
#[macro_export]
macro_rules! new_delayed_work {
    ($name:literal) => {
        $crate::work::DelayedWork::new(
            ::kernel::c_str!($name),
            ::kernel::static_lock_class!(),
            ::kernel::static_lock_class!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub use new_delayed_work;

impl<T: DelayedWorkItem<ID>, const ID: u64> DelayedWork<T, ID> {
    /// Makes an idle item; see [`new_delayed_work!`](crate::new_delayed_work).
    pub fn new(
        name: &'static CStr,
        work_key: Pin<&'static LockClassKey>,
        timer_key: Pin<&'static LockClassKey>,
        owners_key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes, name and keys are static, and only this item,
            // which is in a `Self`, calls `call`. `delayed_work_timer_fn` gets the timer of a
            // delayed work.
            work <- Opaque::ffi_init(|slot: *mut bindings::delayed_work| unsafe {
                bindings::init_work_with_key(
                    &raw mut (*slot).work,
                    Some(Self::call),
                    false,
                    name.as_char_ptr(),
                    work_key.as_ptr(),
                );
                bindings::timer_init_key(
                    &raw mut (*slot).timer,
                    Some(bindings::delayed_work_timer_fn),
                    bindings::TIMER_IRQSAFE,
                    name.as_char_ptr(),
                    timer_key.as_ptr(),
                );
            }),
            owners <- SpinLockIrq::new(Armed::NONE, name, owners_key),
        })
    }

    /// Has the item run in `ms` milliseconds, for `owner`, the object that it is in; replaces the
    /// time if it is armed already. Does nothing while [`Self::cancel_sync`] runs, or if it is
    /// armed on another queue. Dropping `queue` waits for the item. Wraps `cancel_delayed_work()`
    /// and `queue_delayed_work()`. Context: any.
    pub fn arm(&self, queue: &Workqueue, owner: Arc<T>, ms: u32) {
        if !is_within(self, &owner) {
            return;
        }
        let mut owners = self.owners.lock();
        if !owners.may_be_on(queue.armed()) {
            drop(owners);
            pr_err!("a timer was armed on two workqueues\n");
            return;
        }
        // Not mod_delayed_work(): it does not tell whether the item was queued. While a thread
        // cancels it, it is not, and then nobody would drop the reference.
        // SAFETY: The item is initialised. While it is armed, its memory stays: `owners` gets a
        // reference to the object before a call can look for it, as the lock is held. The timer
        // uses the queue later: until the call has begun or was cancelled, `owners` counts it in
        // the queue's counter, and dropping the queue waits for that to be zero. `queue` is
        // borrowed now, so it is not being dropped.
        let (was_pending, queued) = unsafe {
            let was_pending = bindings::cancel_delayed_work(self.work.get());
            let queued = bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                queue.as_raw(),
                self.work.get(),
                msecs_to_jiffies(ms),
            );
            (was_pending, queued)
        };
        if queued {
            owners.put(owner.clone(), queue.armed());
        }
        let before = if was_pending { owners.take() } else { None };
        drop(owners);
        drop((before, owner));
    }

    /// Disarms the item. Returns true if it was armed and will not run. After false it may be
    /// running. Wraps `cancel_delayed_work()`. Context: any. The caller must hold a reference to
    /// the object, as the item's may be the last one otherwise.
    pub fn cancel(&self) -> bool {
        let mut owners = self.owners.lock();
        // SAFETY: The item is initialised, and `self` keeps it.
        if !unsafe { bindings::cancel_delayed_work(self.work.get()) } {
            return false;
        }
        let owner = owners.take();
        drop(owners);
        drop(owner);
        true
    }

    /// As [`Self::cancel`], and waits for the item to end if it runs. Wraps
    /// `cancel_delayed_work_sync()`. Context: sleeping, not in the item itself.
    pub fn cancel_sync(&self) -> bool {
        // SAFETY: The item is initialised, and `self` keeps it.
        let cancelled = unsafe { bindings::cancel_delayed_work_sync(self.work.get()) };
        if cancelled {
            let owner = self.owners.lock().take();
            drop(owner);
        }
        cancelled
    }

    /// # Safety
    ///
    /// `work` must be the `work` field of the delayed work of a `Self` that [`Self::arm`] has
    /// armed.
    unsafe extern "C" fn call(work: *mut bindings::work_struct) {
        // SAFETY: By the contract of this function `work` is in a delayed work, and that in a
        // `Self`.
        let owners = unsafe {
            let work = Opaque::cast_from(container_of!(work, bindings::delayed_work, work));
            &raw const (*container_of!(work, Self, work)).owners
        };
        // SAFETY: The item lives until the reference of this call, which is in `owners`, is
        // dropped.
        let owner = unsafe { (*owners).lock().take() };
        if let Some(owner) = owner {
            noio(|| T::expire(owner));
        }
    }
}

#[kunit_tests(kext_work)]
mod tests {
    use super::*;
    use crate::{new_delayed_work, work::cancel_work_sync, WqFlags};
    use core::sync::atomic::AtomicBool;
    use kernel::{
        impl_has_work, new_work,
        time::{delay::fsleep, Delta},
        workqueue::{Work, WorkItem},
    };

    #[pin_data]
    struct Thing {
        timers: AtomicU32,
        #[pin]
        timer: DelayedWork<Thing>,
    }

    impl DelayedWorkItem for Thing {
        fn expire(this: Arc<Self>) {
            this.timers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn thing() -> Result<Arc<Thing>> {
        let init = pin_init!(Thing {
            timers: AtomicU32::new(0),
            timer <- new_delayed_work!("kext_test_timer"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    fn queue() -> Result<Workqueue> {
        Workqueue::new(c"kext_test", WqFlags::UNBOUND, 0)
    }

    #[test]
    fn timers_run_once_and_can_be_moved() -> Result {
        let (queue, thing) = (queue()?, thing()?);
        thing.timer.arm(&queue, thing.clone(), 100_000);
        thing.timer.arm(&queue, thing.clone(), 1);
        while thing.timers.load(Ordering::Relaxed) == 0 {
            fsleep(Delta::from_millis(1));
        }
        queue.flush();
        assert!(!thing.timer.cancel());
        assert_eq!(thing.timers.load(Ordering::Relaxed), 1);
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }

    #[test]
    fn a_queue_that_is_dropped_waits_for_its_timers() -> Result {
        let (first, second, thing) = (queue()?, queue()?, thing()?);
        thing.timer.arm(&first, thing.clone(), 2000);
        // On one queue at a time.
        thing.timer.arm(&second, thing.clone(), 1);
        drop(second);
        assert_eq!(thing.timers.load(Ordering::Relaxed), 0);
        drop(first);
        assert_eq!(thing.timers.load(Ordering::Relaxed), 1);
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }

    #[test]
    fn timers_can_be_cancelled() -> Result {
        let (queue, thing) = (queue()?, thing()?);
        thing.timer.arm(&queue, thing.clone(), 100_000);
        assert!(thing.timer.cancel());
        assert!(!thing.timer.cancel());
        thing.timer.arm(&queue, thing.clone(), 100_000);
        assert!(thing.timer.cancel_sync());
        assert_eq!(thing.timers.load(Ordering::Relaxed), 0);
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }

    /// An object with a delayed work item that runs long, and a work item that arms it meanwhile.
    #[pin_data]
    struct Rearmed {
        queue: Workqueue,
        began: AtomicBool,
        #[pin]
        work: Work<Rearmed>,
        #[pin]
        timer: DelayedWork<Rearmed>,
    }

    impl_has_work! {
        impl HasWork<Self> for Rearmed { self.work }
    }

    impl WorkItem for Rearmed {
        type Pointer = Arc<Self>;

        fn run(this: Arc<Self>) {
            fsleep(Delta::from_millis(50));
            this.timer.arm(&this.queue, this.clone(), 1);
        }
    }

    impl DelayedWorkItem for Rearmed {
        fn expire(this: Arc<Self>) {
            this.began.store(true, Ordering::Relaxed);
            fsleep(Delta::from_millis(500));
        }
    }

    /// An item that is armed while `cancel_sync` waits for its end does not run, and keeps nothing.
    #[test]
    fn arming_during_cancel_sync_keeps_nothing() -> Result {
        let init = pin_init!(Rearmed {
            queue: queue()?,
            began: AtomicBool::new(false),
            work <- new_work!("kext_test_rearm_work"),
            timer <- new_delayed_work!("kext_test_rearm_timer"),
        }? Error);
        let thing = Arc::pin_init(init, GFP_KERNEL)?;
        thing.timer.arm(&thing.queue, thing.clone(), 1);
        for _ in 0..1000 {
            if thing.began.load(Ordering::Relaxed) {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        thing.queue.enqueue(thing.clone());
        // The item is running, so this waits for half a second.
        assert!(!thing.timer.cancel_sync());
        cancel_work_sync(&thing, |thing| &thing.work);
        thing.queue.flush();
        fsleep(Delta::from_millis(20));
        thing.timer.cancel_sync();
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }

    #[test]
    fn only_for_the_object_that_it_is_in() -> Result {
        let (queue, thing, other) = (queue()?, thing()?, thing()?);
        thing.timer.arm(&queue, other, 100_000);
        assert!(!thing.timer.cancel());
        assert!(Arc::into_unique_or_drop(thing).is_some());
        Ok(())
    }
}
