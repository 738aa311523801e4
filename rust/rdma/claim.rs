// SPDX-License-Identifier: GPL-2.0

//! A claim: exclusive access that nobody waits for.
//!
//! For work that anybody may find to be done and one at a time does, in any context. Who finds the
//! claim taken leaves word and goes; the holder hears of it when it lets go, and looks again. So no
//! request to look is lost, and softirq code can be a holder although processes are, which a lock
//! that sleeps does not allow and one that spins makes dear.

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

/// Somebody has the claim.
const TAKEN: u32 = 1 << 0;
/// Somebody else found it taken since.
const ASKED: u32 = 1 << 1;

/// See the module's documentation.
pub struct Claim<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: Moving the claim moves the value, nothing else in it is tied to a thread.
unsafe impl<T: Send> Send for Claim<T> {}
// SAFETY: The value is accessed by the one holder of the claim only, on whatever thread that is,
// hence `T: Send`.
unsafe impl<T: Send> Sync for Claim<T> {}

/// The claim is taken; ends with this object.
pub struct Claimed<'a, T>(
    /// INVARIANT: `TAKEN` was set by the one who made this object, and is set while it is there.
    &'a Claim<T>,
    /// It gives access to the value, so it may be sent and shared where that may be.
    PhantomData<&'a mut T>,
);

impl<T> Claim<T> {
    /// A claim that nobody has.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the claim, or leaves word for who has it. Context: any.
    #[inline]
    pub fn try_take(&self) -> Option<Claimed<'_, T>> {
        // Acquire: what the last holder did is visible, and so is what those did who left word.
        if self.word.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN == 0 {
            // INVARIANT: Set here.
            return Some(Claimed(self, PhantomData));
        }
        self.ask()
    }

    fn ask(&self) -> Option<Claimed<'_, T>> {
        // Release: what the caller wants to be looked at is visible to the holder who hears of it.
        // If the holder let go just now, there is nobody to hear of it, but the claim is free.
        if self.word.fetch_or(TAKEN | ASKED, Ordering::AcqRel) & TAKEN != 0 {
            return None;
        }
        // INVARIANT: Set here.
        Some(Claimed(self, PhantomData))
    }

    /// Takes the claim when its holder has let go, and nobody else is faster. Whoever waits like
    /// this must not hold what the holder needs, and not wait for one who goes on for ever.
    /// Context: sleeping.
    pub fn take(&self) -> Claimed<'_, T> {
        might_sleep();
        loop {
            if self.word.fetch_or(TAKEN, Ordering::AcqRel) & TAKEN == 0 {
                // INVARIANT: Set here.
                return Claimed(self, PhantomData);
            }
            fsleep(Delta::from_micros(50));
        }
    }
}

impl<'a, T> Claimed<'a, T> {
    /// Ends the claim, unless somebody asked for it meanwhile: then it goes on, and there may be
    /// more to do.
    #[inline]
    pub fn let_go(self) -> Result<(), Self> {
        // Release: what was done under the claim is visible to the next holder. Acquire: so is, to
        // us, what was done by those who asked.
        let word = &self.0.word;
        if word
            .compare_exchange(TAKEN, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            core::mem::forget(self);
            return Ok(());
        }
        word.fetch_and(!ASKED, Ordering::AcqRel);
        Err(self)
    }
}

impl<T> Deref for Claimed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariant nobody else has the claim, so only shared references to
        // the value that are borrowed from this object exist.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Claimed<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant nobody else has the claim, and this object is borrowed
        // exclusively, so no other reference to the value exists.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Claimed<'_, T> {
    /// Ends the claim. Who asked meanwhile is not heard.
    #[inline]
    fn drop(&mut self) {
        self.0.word.store(0, Ordering::Release);
    }
}

#[kunit_tests(rdma_claim)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let claim = Claim::new(1);
        {
            let mut first = claim.take();
            *first += 1;
            assert!(claim.try_take().is_none());
        }
        // Dropping hears nobody.
        assert_eq!(claim.try_take().map(|c| *c), Some(2));
    }

    #[test]
    fn who_asks_is_heard() {
        let claim = Claim::new(());
        let first = claim.take();
        assert!(claim.try_take().is_none());
        assert!(claim.try_take().is_none());
        // Once for both; then it ends.
        let again = first.let_go().err();
        assert!(again.is_some());
        assert!(claim.try_take().is_none());
        let last = again.and_then(|c| c.let_go().err());
        assert!(last.is_some_and(|c| c.let_go().is_ok()));
        assert!(claim.try_take().is_some_and(|c| c.let_go().is_ok()));
    }
}
