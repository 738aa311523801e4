// SPDX-License-Identifier: GPL-2.0

//! A lock for work that is found in any context, and that one context at a time does.
//!
//! A caller that finds the lock taken signals its holder and returns. The holder learns of the
//! signal when it unlocks, and looks for work again, so no request is lost. Softirqs and processes
//! can both be holders. A sleeping lock would not allow the former, and a spinlock would keep a
//! processor busy for as long as the holder sends.
//!
//! A caller that changes the value, and does none of the work, waits for the lock
//! ([`TxLock::lock_with`]). It is told of signals that the holder before it has not seen, and of
//! those that come while it has the lock.

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU32, Ordering},
};
use kernel::{
    prelude::*,
    task::might_sleep,
    time::{delay::fsleep, Delta},
};

/// The lock is taken.
const LOCKED: u32 = 1 << 0;
/// A caller of `try_lock_or_signal` has found the lock taken. May stay set when the lock is free:
/// the last holder then has the work started.
const SIGNALLED: u32 = 1 << 1;
/// A caller of `lock_with` waits. It is the next holder.
const CONTENDED: u32 = 1 << 2;

/// Microseconds for which a caller of `lock_with` sleeps at first, and at most. A holder that is
/// without a processor may take seconds, and there may be many of them.
const FIRST_WAIT_US: i64 = 50;
const MAX_WAIT_US: i64 = 10_000;

/// A lock whose holder is signalled instead of waited for; see the module's documentation.
pub struct TxLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: Moving the lock moves the value; nothing else in it is tied to a thread.
unsafe impl<T: Send> Send for TxLock<T> {}
// SAFETY: Only the holder of the lock accesses the value, on whatever thread that is, hence
// `T: Send`.
unsafe impl<T: Send> Sync for TxLock<T> {}

/// The lock is held; dropping this unlocks it.
pub struct TxGuard<'a, T>(
    /// INVARIANT: `LOCKED` was set for this object, and stays set while it exists.
    &'a TxLock<T>,
    /// It gives access to the value, so it may be sent and shared where `&mut T` may.
    PhantomData<&'a mut T>,
);

impl<T> TxLock<T> {
    /// Makes an unlocked lock.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock. If it is taken, signals its holder and returns `None`. Context: any.
    #[inline]
    pub fn try_lock_or_signal(&self) -> Option<TxGuard<'_, T>> {
        // Acquire: this holder sees the changes of the last one, and those of callers that
        // signalled.
        let word = &self.word;
        if word
            .compare_exchange(0, LOCKED, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            // INVARIANT: `LOCKED` was not set, and is now.
            return Some(TxGuard(self, PhantomData));
        }
        self.signal()
    }

    /// Takes the lock if no bit of `unless` is set, and keeps those of `keep`. Otherwise sets
    /// `bit`.
    fn change(&self, unless: u32, keep: u32, bit: u32) -> Option<TxGuard<'_, T>> {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let free = old & unless == 0;
            let new = if free { LOCKED | old & keep } else { old | bit };
            // Release: the holder that is signalled sees the work that the caller has for it.
            // Acquire: as in `try_lock_or_signal`.
            match self
                .word
                .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                // INVARIANT: `LOCKED` was not set, and is now.
                Ok(_) if free => return Some(TxGuard(self, PhantomData)),
                Ok(_) => return None,
                Err(now) => old = now,
            }
        }
    }

    fn signal(&self) -> Option<TxGuard<'_, T>> {
        // The work that another was signalled for is this holder's now.
        self.change(LOCKED | CONTENDED, 0, SIGNALLED)
    }

    fn lock_in_turn(&self) -> Option<TxGuard<'_, T>> {
        self.change(LOCKED, SIGNALLED, CONTENDED)
    }

    /// Waits for the lock, calls `f`, and unlocks. Returns the result of `f`, and whether the
    /// caller has to have the work started, for others that found the lock taken. Meanwhile the
    /// holder sees [`TxLock::is_contended`] and should end its work, and callers of
    /// [`TxLock::try_lock_or_signal`] do not get the lock. The caller must not hold anything that
    /// the holder may wait for. Context: sleeping.
    #[must_use = "the work that was signalled would be lost"]
    pub fn lock_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> (R, bool) {
        might_sleep();
        let mut us = FIRST_WAIT_US;
        let mut guard = loop {
            if let Some(guard) = self.lock_in_turn() {
                break guard;
            }
            fsleep(Delta::from_micros(us));
            us = MAX_WAIT_US.min(2 * us);
        };
        let result = f(&mut guard);
        (result, guard.unlock_signalled())
    }

    /// Clears `LOCKED`, for the holder; returns what the word was.
    #[inline]
    fn free(&self) -> u32 {
        // Release: the next holder sees the changes of this one.
        self.word.fetch_and(!LOCKED, Ordering::Release)
    }

    /// Whether a caller of [`TxLock::lock_with`] waits. Context: any.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CONTENDED != 0
    }
}

impl<'a, T> TxGuard<'a, T> {
    /// Unlocks. If the holder was signalled, there may be more to do: it keeps the lock and gets
    /// the guard back. But it unlocks in any case if a caller of [`TxLock::lock_with`] waits,
    /// which learns of the signal then.
    #[inline]
    pub fn unlock(self) -> Result<(), Self> {
        // Release: the next holder sees the changes of this one. Acquire: this holder sees those of
        // callers that signalled.
        let word = &self.0.word;
        if word
            .compare_exchange(LOCKED, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            core::mem::forget(self);
            return Ok(());
        }
        // Only the next holder clears `CONTENDED`. `Drop` unlocks, and leaves it the signal.
        if word.load(Ordering::Relaxed) & CONTENDED != 0 {
            return Ok(());
        }
        word.fetch_and(!SIGNALLED, Ordering::AcqRel);
        Err(self)
    }

    /// Unlocks in any case. Returns true if the holder was signalled, and no caller of
    /// [`TxLock::lock_with`] waits, which learns of it otherwise.
    fn unlock_signalled(self) -> bool {
        let old = self.0.free();
        core::mem::forget(self);
        old & (SIGNALLED | CONTENDED) == SIGNALLED
    }
}

impl<T> Deref for TxGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant only this object has the lock. So all references to the
        // value are borrowed from it, and they are shared.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TxGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant only this object has the lock, and it is exclusively
        // borrowed. So no other reference to the value exists.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TxGuard<'_, T> {
    /// Unlocks. The holder does not learn of signals that have arrived, so it has the work
    /// started again.
    #[inline]
    fn drop(&mut self) {
        self.0.free();
    }
}

#[kunit_tests(kext_tx_lock)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let lock = TxLock::new(1);
        let (taken, signalled) = lock.lock_with(|value| {
            *value += 1;
            lock.try_lock_or_signal().is_none()
        });
        assert!(taken && signalled);
        // Who takes it now does that work.
        let next = lock.try_lock_or_signal();
        assert!(next.is_some_and(|guard| *guard == 2 && guard.unlock().is_ok()));
        assert_eq!(lock.lock_with(|value| *value), (2, false));
    }

    #[test]
    fn a_waiter_is_next() {
        let lock = TxLock::new(());
        let first = lock.try_lock_or_signal();
        assert!(!lock.is_contended());
        assert!(lock.lock_in_turn().is_none());
        assert!(lock.is_contended());
        // Others only signal. The waiter comes first.
        assert!(lock.try_lock_or_signal().is_none());
        assert!(first.is_some_and(|guard| guard.unlock().is_ok()));
        assert!(lock.try_lock_or_signal().is_none());
        let next = lock.lock_in_turn();
        assert!(next.is_some() && !lock.is_contended());
        assert!(lock.try_lock_or_signal().is_none());
        drop(next);
        // It is the same if the guard is dropped.
        let first = lock.try_lock_or_signal();
        assert!(first.is_some() && lock.lock_in_turn().is_none());
        drop(first);
        assert!(lock.try_lock_or_signal().is_none() && lock.lock_in_turn().is_some());
        assert!(lock
            .try_lock_or_signal()
            .is_some_and(|c| c.unlock().is_ok()));
    }

    #[test]
    fn a_waiter_learns_of_signals() {
        let lock = TxLock::new(());
        let signal = || lock.try_lock_or_signal().is_none();
        // For the holder before it, also if that one drops the guard, and behind it.
        for (before, behind, unlocks) in [
            (true, false, true),
            (false, true, true),
            (true, false, false),
        ] {
            let first = lock.try_lock_or_signal();
            assert!(lock.lock_in_turn().is_none() && (!before || signal()));
            assert!(first.is_some_and(|guard| !unlocks || guard.unlock().is_ok()));
            assert!(!behind || signal());
            let next = lock.lock_in_turn();
            // The last of several waiters learns of it.
            assert!(lock.lock_in_turn().is_none());
            assert!(next.is_some_and(|guard| !guard.unlock_signalled()));
            let last = lock.lock_in_turn();
            assert!(last.is_some_and(|guard| guard.unlock_signalled()));
        }
        let quiet = lock.try_lock_or_signal();
        assert!(quiet.is_some_and(|guard| !guard.unlock_signalled()));
    }

    #[test]
    fn the_holder_learns_of_a_signal() {
        let lock = TxLock::new(());
        let first = lock.try_lock_or_signal();
        assert!(lock.try_lock_or_signal().is_none());
        assert!(lock.try_lock_or_signal().is_none());
        // The holder is told once of both signals. Then it can unlock.
        let again = first.and_then(|guard| guard.unlock().err());
        assert!(again.is_some());
        assert!(lock.try_lock_or_signal().is_none());
        let last = again.and_then(|c| c.unlock().err());
        assert!(last.is_some_and(|c| c.unlock().is_ok()));
        assert!(lock
            .try_lock_or_signal()
            .is_some_and(|c| c.unlock().is_ok()));
    }
}
