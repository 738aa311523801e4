// SPDX-License-Identifier: GPL-2.0

//! A gate: shared access to a value that one caller takes away for good.
//!
//! What registered memory needs: any number of actors copy in and out of it, in any context and
//! without a lock; deregistration closes the gate, waits until those that are inside have left
//! (each stays for one bounded copy), and owns the value from then on. After that nobody reaches
//! the memory, whoever still holds a reference to the gate.

use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ops::Deref,
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::time::{delay::fsleep, Delta};

/// The gate is closed; the bits below count the guards.
const CLOSED: u32 = 1 << 31;

/// See the module's documentation.
pub struct Gate<T> {
    users: AtomicU32,
    value: UnsafeCell<ManuallyDrop<T>>,
}

// SAFETY: Moving the gate moves the value, nothing else in it is tied to a thread.
unsafe impl<T: Send> Send for Gate<T> {}
// SAFETY: Guards hand out `&T` to any thread (hence `T: Sync`), and `close` hands the value to the
// thread that calls it (hence `T: Send`).
unsafe impl<T: Send + Sync> Sync for Gate<T> {}

/// Holds the gate open: the value stays where it is while the guard lives.
pub struct GateGuard<'a, T>(&'a Gate<T>);

impl<T> Gate<T> {
    /// An open gate.
    pub const fn new(value: T) -> Self {
        Self {
            users: AtomicU32::new(0),
            value: UnsafeCell::new(ManuallyDrop::new(value)),
        }
    }

    /// Enters, unless the gate is closed. Context: any; keep the guard for a short, bounded time.
    #[inline]
    pub fn enter(&self) -> Option<GateGuard<'_, T>> {
        // Acquire: what `new`'s caller published with the gate is visible. 2^31 guards at a time
        // cannot exist: each is held by a running thread of execution.
        if self.users.fetch_add(1, Ordering::Acquire) & CLOSED != 0 {
            self.users.fetch_sub(1, Ordering::Release);
            return None;
        }
        Some(GateGuard(self))
    }

    /// Closes the gate, waits for those inside and takes the value; `None` if it was closed
    /// before. Context: sleeping.
    pub fn close(&self) -> Option<T> {
        if self.users.fetch_or(CLOSED, Ordering::AcqRel) & CLOSED != 0 {
            return None;
        }
        // Acquire pairs with the Release of a leaving guard: its accesses are over.
        while self.users.load(Ordering::Acquire) != CLOSED {
            fsleep(Delta::from_micros(20));
        }
        // SAFETY: `CLOSED` was set by this call alone (the check above), so the value is taken at
        // most once; no guard exists and none is made any more, so nothing refers to it.
        Some(unsafe { ManuallyDrop::take(&mut *self.value.get()) })
    }
}

impl<T> Drop for Gate<T> {
    fn drop(&mut self) {
        if *self.users.get_mut() & CLOSED == 0 {
            // SAFETY: The gate was never closed, so the value was never taken; `&mut self` proves
            // that no guard exists.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) };
        }
    }
}

impl<T> Deref for GateGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The guard is counted in `users`, so `close` waits for its end before it touches
        // the value; until then there are only shared references to it.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for GateGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: the accesses made under the guard come before the value's end.
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}
