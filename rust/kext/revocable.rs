// SPDX-License-Identifier: GPL-2.0

//! Shared access to a value that its owner takes away for good.
//!
//! Any number of threads access the value at a time, in any context and without a lock. The owner
//! revokes it: it waits until the accesses under way have ended, and takes the value. Later
//! accesses fail, also through references to the [`Revocable`] that others still hold.
//!
//! There are two uses. Registered memory: each access copies a bounded piece. And pointers to the
//! core's objects, which the core frees when their destroy operation returns: that operation
//! revokes the pointers that handles have. `kernel::revocable::Revocable` does not serve, because
//! revoking it waits for an RCU grace period, which each deregistration of memory would pay for.

use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{fence, AtomicU32, Ordering},
};
use kernel::{
    prelude::*,
    sync::{Arc, Completion},
};

/// Set in `users` if the value is revoked or about to be.
const REVOKED: u32 = 1 << 31;

/// Set in `users` until the value may be accessed. The bits below count the accesses under way.
const CLOSED: u32 = 1 << 30;

/// A value that anybody accesses until its owner revokes it; see the module's documentation.
#[pin_data(PinnedDrop)]
pub struct Revocable<T> {
    users: AtomicU32,
    /// Completed when the last access ends after `REVOKED` was set.
    #[pin]
    ended: Completion,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: Moving the object moves the value; nothing else in it belongs to a thread.
unsafe impl<T: Send> Send for Revocable<T> {}
// SAFETY: Guards give `&T` to any thread, hence `T: Sync`. `revoke` gives the value to the thread
// that calls it, hence `T: Send`.
unsafe impl<T: Send + Sync> Sync for Revocable<T> {}

/// As [`RevocableGuard`], for a value inside of an object with counted references. Saves counting
/// each of many accesses that follow each other.
pub struct OwnedGuard<O, T> {
    owner: Arc<O>,
    /// INVARIANT: It is part of `owner`, and the access is counted in its `users`.
    revocable: NonNull<Revocable<T>>,
}

// SAFETY: Moving it moves a reference to `owner`. The value may be accessed in one thread and the
// access ended in another; while it lasts, only shared references to the value are given out.
unsafe impl<O: Send + Sync, T: Send + Sync> Send for OwnedGuard<O, T> {}

impl<O, T> OwnedGuard<O, T> {
    /// Accesses the value of `owner` that `of` selects; `None` as with [`Revocable::try_access`].
    /// Context: any.
    pub fn new(owner: Arc<O>, of: impl FnOnce(&O) -> &Revocable<T>) -> Option<Self> {
        let revocable = of(&owner);
        core::mem::forget(revocable.try_access()?);
        let revocable = NonNull::from(revocable);
        // INVARIANT: The forgotten guard's access is counted. `of` works with any lifetime, so what
        // it returns lives as long as `owner` does.
        Some(Self { owner, revocable })
    }

    /// The object that the value belongs to.
    #[inline]
    pub fn owner(&self) -> &Arc<O> {
        &self.owner
    }

    #[inline]
    fn revocable(&self) -> &Revocable<T> {
        // SAFETY: By the type invariant it is part of `owner`, of which there are only shared
        // references as long as this object has one.
        unsafe { self.revocable.as_ref() }
    }
}

impl<O, T> Deref for OwnedGuard<O, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant the access is counted, so `revoke` waits for its end before
        // it takes the value. Until then there are only shared references to it.
        unsafe { &*self.revocable().value.get() }
    }
}

impl<O, T> Drop for OwnedGuard<O, T> {
    #[inline]
    fn drop(&mut self) {
        self.revocable().end_access();
    }
}

/// An access to the value, which is not taken away while the guard lives.
pub struct RevocableGuard<'a, T>(
    /// INVARIANT: The access is counted in `users`.
    &'a Revocable<T>,
);

impl<T> Revocable<T> {
    /// Makes a value that can be accessed.
    pub fn new(value: T) -> impl PinInit<Self> {
        Self::with(0, value)
    }

    /// Makes a value that can be accessed from [`Self::open`] on.
    pub fn new_closed(value: T) -> impl PinInit<Self> {
        Self::with(CLOSED, value)
    }

    fn with(users: u32, value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            users: AtomicU32::new(users),
            ended <- Completion::new(),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        })
    }

    /// Lets the value be accessed. Context: any.
    pub fn open(&self) {
        // Release: what was prepared before is seen by those who access the value.
        self.users.fetch_and(!CLOSED, Ordering::Release);
    }

    /// Accesses the value; `None` if it is revoked, or not open yet. Context: any.
    #[inline]
    pub fn try_access(&self) -> Option<RevocableGuard<'_, T>> {
        // Acquire: the access comes after it was counted. 2^30 accesses at a time cannot exist:
        // each belongs to a thread that runs, or to a reference that the core has to an object.
        // INVARIANT: The access is counted here. Dropping the guard takes it back, also if the
        // value is revoked or closed.
        let users = self.users.fetch_add(1, Ordering::Acquire);
        let guard = RevocableGuard(self);
        (users & (REVOKED | CLOSED) == 0).then_some(guard)
    }

    /// Waits for the accesses under way and takes the value. `None` if it was revoked before.
    /// Context: sleeping.
    pub fn revoke(&self) -> Option<T> {
        // Acquire: accesses that have ended, by a release, come before this.
        let users = self.users.fetch_or(REVOKED, Ordering::AcqRel);
        if users & REVOKED != 0 {
            return None;
        }
        if users & !CLOSED != 0 {
            self.ended.wait_for_completion();
        }
        // SAFETY: Only the call that has set `REVOKED` comes here, so the value is taken at most
        // once. Accesses that began before have ended, and those that begin later get no guard. So
        // nothing refers to the value.
        Some(unsafe { ManuallyDrop::take(&mut *self.value.get()) })
    }

    /// Ends an access.
    #[inline]
    fn end_access(&self) {
        // Release: the access comes before its end, and so before the value is taken.
        if self.users.fetch_sub(1, Ordering::Release) & !CLOSED == REVOKED + 1 {
            self.last_has_ended();
        }
    }

    #[cold]
    fn last_has_ended(&self) {
        // Acquire: the accesses of others that have ended, each by a release, come before the
        // completion, which the owner waits for.
        fence(Ordering::Acquire);
        // An access that begins too late gets no guard, but may be the last one once more, which
        // does no harm.
        self.ended.complete_all();
    }

    /// The guard of an access that was forgotten ([`core::mem::forget`]), to end the access or to
    /// forget it again. Context: any.
    ///
    /// # Safety
    ///
    /// There must be such an access, whose guard nobody else takes back meanwhile.
    pub unsafe fn from_forgotten(&self) -> RevocableGuard<'_, T> {
        // INVARIANT: By the contract of this function the access was counted, and has not ended.
        RevocableGuard(self)
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Revocable<T> {
    fn drop(self: Pin<&mut Self>) {
        if self.users.load(Ordering::Relaxed) & REVOKED == 0 {
            // SAFETY: The value was not revoked, so nobody has taken it. Nobody refers to it:
            // guards borrow the object, which ends here.
            unsafe { ManuallyDrop::drop(&mut *self.value.get()) };
        }
    }
}

impl<T> Clone for RevocableGuard<'_, T> {
    /// One more access. It begins also while the value is being revoked, as that waits for this
    /// one. Context: any.
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: the access of `self` has begun, and this one is as good.
        // INVARIANT: The access is counted here. It is before the value is taken, for which the
        // access of `self` has to end first.
        self.0.users.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<T> Deref for RevocableGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The access is counted in `users`, so `revoke` waits for its end before it takes
        // the value. Until then there are only shared references to it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for RevocableGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.end_access();
    }
}

#[kunit_tests(kext_revocable)]
mod tests {
    use super::*;
    use crate::{Workqueue, WqFlags};
    use kernel::{
        impl_has_work, new_work,
        time::{delay::fsleep, Delta},
        workqueue::{Work, WorkItem},
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
    fn an_owned_access_is_counted_and_keeps_its_owner() -> Result {
        let owner = Arc::pin_init(Revocable::new(1), GFP_KERNEL)?;
        let guard = OwnedGuard::new(owner.clone(), |o| o);
        assert_eq!(owner.users.load(Ordering::Relaxed), 1);
        assert!(guard.is_some_and(|guard| *guard == 1 && Arc::ptr_eq(guard.owner(), &owner)));
        assert_eq!(owner.users.load(Ordering::Relaxed), 0);
        assert!(owner.revoke().is_some());
        assert!(OwnedGuard::new(owner.clone(), |o| o).is_none());
        assert!(Arc::into_unique_or_drop(owner).is_some());
        Ok(())
    }

    #[test]
    fn an_access_is_repeated_while_the_value_is_revoked() -> Result {
        let revocable = KBox::pin_init(Revocable::new(1), GFP_KERNEL)?;
        let guard = revocable.try_access();
        // As `revoke` does before it waits.
        revocable.users.fetch_or(REVOKED, Ordering::Relaxed);
        assert!(revocable.try_access().is_none());
        let repeated = guard.clone();
        drop(guard);
        assert!(repeated.as_ref().is_some_and(|guard| **guard == 1));
        assert_eq!(revocable.users.load(Ordering::Relaxed), REVOKED + 1);
        core::mem::forget(repeated);
        // SAFETY: The access was forgotten above.
        drop(unsafe { revocable.from_forgotten() });
        assert_eq!(revocable.users.load(Ordering::Relaxed), REVOKED);
        Ok(())
    }

    #[test]
    fn what_is_closed_is_not_accessed() -> Result {
        let value = Arc::new(1, GFP_KERNEL)?;
        let init = Revocable::new_closed(value.clone());
        let revocable = KBox::pin_init(init, GFP_KERNEL)?;
        assert!(revocable.try_access().is_none());
        revocable.open();
        assert!(revocable.try_access().is_some_and(|v| **v == 1));
        assert!(revocable.revoke().is_some());
        // Revoked before it was opened: it does not wait, and opening it changes nothing.
        let init = Revocable::new_closed(value);
        let revocable = KBox::pin_init(init, GFP_KERNEL)?;
        assert!(revocable.revoke().is_some());
        revocable.open();
        assert!(revocable.try_access().is_none());
        Ok(())
    }

    #[test]
    fn what_is_not_revoked_is_dropped() -> Result {
        let value = Arc::new(1, GFP_KERNEL)?;
        drop(KBox::pin_init(Revocable::new(value.clone()), GFP_KERNEL)?);
        assert!(Arc::into_unique_or_drop(value).is_some());
        Ok(())
    }

    /// An object whose work item accesses the value for a while.
    #[pin_data]
    struct Slow {
        #[pin]
        value: Revocable<()>,
        began: AtomicU32,
        ended: AtomicU32,
        #[pin]
        work: Work<Slow>,
    }

    impl_has_work! {
        impl HasWork<Self> for Slow { self.work }
    }

    impl WorkItem for Slow {
        type Pointer = Arc<Self>;

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
        let queue = Workqueue::new(c"kext_test_revocable", WqFlags::UNBOUND, 0)?;
        let init = pin_init!(Slow {
            value <- Revocable::new(()),
            began: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            work <- new_work!("kext_test_revocable"),
        });
        let slow = Arc::pin_init(init, GFP_KERNEL)?;
        queue.enqueue(slow.clone());
        while slow.began.load(Ordering::Acquire) == 0 {
            fsleep(Delta::from_millis(1));
        }
        assert!(slow.value.revoke().is_some());
        assert_eq!(slow.ended.load(Ordering::Relaxed), 1);
        queue.flush();
        Ok(())
    }
}
