// SPDX-License-Identifier: GPL-2.0

//! Keeping a core-allocated object alive for the time of a call.
//!
//! The core frees a CQ, QP or SRQ when its destroy callback returns. A [`Hold`] is shared by the
//! object and by the handles that drivers keep: entering it delays the end of destroy.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{prelude::*, sync::Completion};

/// Destroy has begun to wait: nobody enters any more. The bits below count those inside.
const CLOSED: u32 = 1 << 31;

/// See the module's documentation.
#[pin_data]
pub(crate) struct Hold<C> {
    users: AtomicU32,
    object: NonNull<C>,
    #[pin]
    left: Completion,
}

// SAFETY: The pointer is handed out to those who entered only, who use C functions on it that are
// meant for any context; the rest is atomics and a completion.
unsafe impl<C> Send for Hold<C> {}
// SAFETY: As above.
unsafe impl<C> Sync for Hold<C> {}

impl<C> Hold<C> {
    /// A hold on `object`, which must not be freed before [`Self::close`] was called. (It is not
    /// used here, so a broken promise is the fault of who dereferences it.)
    pub(crate) fn new(object: NonNull<C>) -> impl PinInit<Self> {
        pin_init!(Self {
            users: AtomicU32::new(0),
            object,
            left <- Completion::new(),
        })
    }

    /// Enters and leaves with the guard's drop. Context: any.
    #[inline]
    pub(crate) fn enter(&self) -> Option<HoldGuard<'_, C>> {
        self.get().then_some(HoldGuard(self))
    }

    /// Enters without a guard: [`Self::put`] must follow. `false` if closed. Context: any.
    pub(crate) fn get(&self) -> bool {
        self.users
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| {
                (n & CLOSED == 0).then(|| n + 1)
            })
            .is_ok()
    }

    /// Leaves after [`Self::get`]. Context: any.
    pub(crate) fn put(&self) {
        // Release: whatever was done to the object comes before its end.
        if self.users.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            self.left.complete_all();
        }
    }

    /// Lets nobody in any more and waits for those inside. Context: sleeping.
    pub(crate) fn close(&self) {
        // Acquire pairs with the release of those who have left already.
        if self.users.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED != 0 {
            self.left.wait_for_completion();
        }
    }
}

/// Keeps the object of a [`Hold`].
pub(crate) struct HoldGuard<'a, C>(&'a Hold<C>);

impl<C> HoldGuard<'_, C> {
    /// The object; it lives as long as the guard.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut C {
        self.0.object.as_ptr()
    }
}

impl<C> Drop for HoldGuard<'_, C> {
    fn drop(&mut self) {
        self.0.put();
    }
}
