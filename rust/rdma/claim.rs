// SPDX-License-Identifier: GPL-2.0

//! A claim: exclusive access that hardly anybody waits for.
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
/// Somebody waits for it, and is the next.
const WAITED: u32 = 1 << 2;

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
        let word = &self.word;
        if word
            .compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            // INVARIANT: Set here.
            return Some(Claimed(self, PhantomData));
        }
        self.ask()
    }

    /// Changes the word by `f`; the claim, if it was free for `unless` and `f` has taken it. As
    /// `fetch_update()`, whose closure always changes it.
    fn change(&self, unless: u32, f: impl Fn(u32) -> u32) -> Option<Claimed<'_, T>> {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let free = old & unless == 0;
            let new = if free { TAKEN } else { f(old) };
            // Release: what the caller wants to be looked at is visible to the holder who hears of
            // it. Acquire: as in `try_take`.
            match self
                .word
                .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                // INVARIANT: `TAKEN` was not set, and is now.
                Ok(_) if free => return Some(Claimed(self, PhantomData)),
                Ok(_) => return None,
                Err(now) => old = now,
            }
        }
    }

    fn ask(&self) -> Option<Claimed<'_, T>> {
        self.change(TAKEN | WAITED, |word| word | ASKED)
    }

    fn take_in_turn(&self) -> Option<Claimed<'_, T>> {
        self.change(TAKEN, |word| word | WAITED)
    }

    /// Takes the claim as soon as its holder lets go; others step aside until then, and leave word.
    /// The holder is asked to end its work ([`Claim::is_waited`]). Who left word meanwhile, or while
    /// this one has the claim, is heard by nobody: so the caller wakes whoever looks. Whoever waits
    /// like this must not hold what the holder needs. Context: sleeping.
    pub fn take(&self) -> Claimed<'_, T> {
        might_sleep();
        loop {
            if let Some(claimed) = self.take_in_turn() {
                return claimed;
            }
            fsleep(Delta::from_micros(50));
        }
    }

    /// Whether somebody waits for the claim. Context: any.
    #[inline]
    pub fn is_waited(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WAITED != 0
    }
}

impl<'a, T> Claimed<'a, T> {
    /// Ends the claim, unless somebody asked for it meanwhile and nobody waits for it: then it goes on,
    /// and there may be more to do.
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
        // Nobody but the holder takes WAITED away.
        if word.load(Ordering::Relaxed) & WAITED != 0 {
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
        self.0.word.fetch_and(WAITED, Ordering::Release);
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
    fn who_waits_is_next() {
        let claim = Claim::new(());
        let first = claim.take();
        assert!(!claim.is_waited());
        assert!(claim.take_in_turn().is_none());
        assert!(claim.is_waited());
        // Others leave word, which the holder need not hear, and step aside.
        assert!(claim.try_take().is_none());
        assert!(first.let_go().is_ok());
        assert!(claim.try_take().is_none());
        let next = claim.take_in_turn();
        assert!(next.is_some() && !claim.is_waited());
        assert!(claim.try_take().is_none());
        drop(next);
        // The same if the holder hears nobody anyway.
        let first = claim.try_take();
        assert!(first.is_some() && claim.take_in_turn().is_none());
        drop(first);
        assert!(claim.try_take().is_none() && claim.take_in_turn().is_some());
        assert!(claim.try_take().is_some_and(|c| c.let_go().is_ok()));
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
