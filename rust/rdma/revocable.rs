// SPDX-License-Identifier: GPL-2.0

//! Shared access to a value that its owner takes away for good.
//!
//! Any number of actors access the value, in any context and without a lock. The owner revokes it: it
//! waits until the accesses under way have ended, and has the value to itself from then on, whoever
//! still holds a reference to the [`Revocable`].
//!
//! Two uses. Registered memory, whose accesses each copy a bounded piece; and the core's objects, which
//! it frees when their destroy callback returns, so that the callback revokes the pointers that handles
//! have. `kernel::revocable::Revocable` does not serve: revoking it waits for an RCU grace period,
//! which each deregistration of memory would pay for.

use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::Deref,
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{prelude::*, sync::Completion};

/// The value is revoked, or about to be; the bits below count the accesses under way.
const REVOKED: u32 = 1 << 31;

/// See the module's documentation.
#[pin_data(PinnedDrop)]
pub struct Revocable<T> {
    users: AtomicU32,
    /// Completed when the last access ends behind `REVOKED`.
    #[pin]
    ended: Completion,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: Moving the object moves the value; nothing else in it is tied to a thread.
unsafe impl<T: Send> Send for Revocable<T> {}
// SAFETY: Guards hand out `&T` to any thread, hence `T: Sync`; `revoke` hands the value to the thread
// that calls it, hence `T: Send`.
unsafe impl<T: Send + Sync> Sync for Revocable<T> {}

/// An access: the value stays where it is while the guard lives.
pub struct RevocableGuard<'a, T>(
    /// INVARIANT: Counted in `users`.
    &'a Revocable<T>,
);

impl<T> Revocable<T> {
    /// A value that can be accessed.
    pub fn new(value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            users: AtomicU32::new(0),
            ended <- Completion::new(),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        })
    }

    /// Accesses the value; `None` if it is revoked. Context: any.
    #[inline]
    pub fn try_access(&self) -> Option<RevocableGuard<'_, T>> {
        // Acquire: what the caller of `new` published with the object is visible. 2^31 accesses at a
        // time cannot exist: each is held by a running thread of execution, or by one of the core's
        // references to an object.
        // INVARIANT: Counted here. The guard takes it back, too, if the value is revoked.
        let revoked = self.users.fetch_add(1, Ordering::Acquire) & REVOKED != 0;
        let guard = RevocableGuard(self);
        (!revoked).then_some(guard)
    }

    /// Waits for the accesses under way and takes the value; `None` if it was revoked before. Context:
    /// sleeping.
    pub fn revoke(&self) -> Option<T> {
        // Acquire pairs with the release of accesses that have ended.
        let users = self.users.fetch_or(REVOKED, Ordering::AcqRel);
        if users & REVOKED != 0 {
            return None;
        }
        if users != 0 {
            self.ended.wait_for_completion();
        }
        // SAFETY: `REVOKED` was set by this call alone (the check above), so the value is taken at most
        // once. Accesses that began before have ended; of those that begin later none gets a guard, so
        // nothing refers to the value.
        Some(unsafe { ManuallyDrop::take(&mut *self.value.get()) })
    }

    /// Ends an access.
    #[inline]
    fn end_access(&self) {
        // Release: the access comes before the value's end.
        if self.users.fetch_sub(1, Ordering::Release) == REVOKED + 1 {
            self.last_has_ended();
        }
    }

    #[cold]
    fn last_has_ended(&self) {
        // An access that comes too late may be the last one a second time, which does no harm.
        self.ended.complete_all();
    }

    /// Ends an access whose guard was forgotten ([`core::mem::forget`]). Context: any.
    ///
    /// # Safety
    ///
    /// There is such a guard, and it is ended once.
    pub(crate) unsafe fn end_forgotten(&self) {
        // INVARIANT: That guard was counted.
        drop(RevocableGuard(self));
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Revocable<T> {
    fn drop(self: Pin<&mut Self>) {
        if self.users.load(Ordering::Relaxed) & REVOKED == 0 {
            // SAFETY: It was never revoked, so the value was never taken; no guard exists, as they
            // borrow the object, and this is its end.
            unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
        }
    }
}

impl<T> Deref for RevocableGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The access is counted in `users`, so `revoke` waits for its end before it touches the
        // value; until then there are only shared references to it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for RevocableGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.end_access();
    }
}

#[kunit_tests(rdma_revocable)]
mod tests {
    use super::*;
    use crate::{
        new_owned_work,
        work::{OwnedWork, OwnedWorkItem},
        Workqueue, WqFlags,
    };
    use kernel::{
        sync::Arc,
        time::{delay::fsleep, Delta},
    };

    #[test]
    fn nobody_accesses_what_is_revoked() -> Result {
        let value = Arc::new(1, GFP_KERNEL)?;
        let revocable = KBox::pin_init(Revocable::new(value.clone()), GFP_KERNEL)?;
        assert!(revocable.try_access().is_some_and(|v| **v == 1));
        assert!(revocable.revoke().is_some_and(|v| Arc::ptr_eq(&v, &value)));
        assert!(revocable.try_access().is_none());
        assert!(revocable.revoke().is_none());
        drop(revocable);
        assert!(Arc::into_unique_or_drop(value).is_some());
        Ok(())
    }

    #[test]
    fn what_is_not_revoked_is_dropped() -> Result {
        let value = Arc::new(1, GFP_KERNEL)?;
        drop(KBox::pin_init(Revocable::new(value.clone()), GFP_KERNEL)?);
        assert!(Arc::into_unique_or_drop(value).is_some());
        Ok(())
    }

    /// Its work accesses the value for a while.
    #[pin_data]
    struct Slow {
        #[pin]
        value: Revocable<()>,
        began: AtomicU32,
        ended: AtomicU32,
        #[pin]
        work: OwnedWork<Slow>,
    }

    impl OwnedWorkItem for Slow {
        fn run(this: Arc<Self>) {
            let access = this.value.try_access();
            this.began.store(1, Ordering::Release);
            fsleep(Delta::from_millis(100));
            this.ended.store(1, Ordering::Relaxed);
            drop(access);
        }
    }

    #[test]
    fn revoke_waits_for_accesses() -> Result {
        let queue = Workqueue::new(c"rdma_test_revocable", WqFlags::UNBOUND, 0)?;
        let init = pin_init!(Slow {
            value <- Revocable::new(()),
            began: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            work <- new_owned_work!("rdma_test_revocable"),
        });
        let slow = Arc::pin_init(init, GFP_KERNEL)?;
        assert!(slow.work.queue(&queue, slow.clone()));
        while slow.began.load(Ordering::Acquire) == 0 {
            fsleep(Delta::from_millis(1));
        }
        assert!(slow.value.revoke().is_some());
        assert_eq!(slow.ended.load(Ordering::Relaxed), 1);
        queue.flush();
        Ok(())
    }
}
