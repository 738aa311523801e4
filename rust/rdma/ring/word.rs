// SPDX-License-Identifier: GPL-2.0

//! One word of memory that others access at the same time.
//!
//! These are Rust's atomics. They compile to the same instructions as the C macros
//! (`smp_load_acquire()` and so on), and unlike the kernel crate's they are inlined into modules.
//! The other side is a process, which uses its compiler's atomics as well.

use core::{
    marker::PhantomData,
    sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};
use rdma_bindings as bindings;

/// A full memory barrier (`smp_mb()`).
///
/// It is the kernel's: `fence(SeqCst)` is an `mfence` on x86, which takes about eight times as long
/// as the locked instruction that the kernel has there, and each message has several barriers.
#[inline]
pub fn mb() {
    // SAFETY: No requirements.
    unsafe { bindings::full_barrier() }
}

mod sealed {
    pub trait Sealed {}
}

/// An integer that can be a [`Word`]: `u16`, `u32` or `u64`.
pub trait WordType: Copy + Eq + sealed::Sealed + 'static {
    #[doc(hidden)]
    type Atomic;
    #[doc(hidden)]
    fn load(atomic: &Self::Atomic, order: Ordering) -> Self;
    #[doc(hidden)]
    fn store(atomic: &Self::Atomic, value: Self, order: Ordering);
    #[doc(hidden)]
    fn swap(atomic: &Self::Atomic, value: Self) -> Self;
    #[doc(hidden)]
    fn fetch_add(atomic: &Self::Atomic, value: Self) -> Self;
    #[doc(hidden)]
    fn compare_exchange(atomic: &Self::Atomic, old: Self, new: Self) -> Result<Self, Self>;
}

macro_rules! impl_word {
    ($($type:ty, $atomic:ty;)*) => {$(
        impl sealed::Sealed for $type {}
        impl WordType for $type {
            type Atomic = $atomic;
            #[inline(always)]
            fn load(atomic: &$atomic, order: Ordering) -> Self {
                atomic.load(order)
            }
            #[inline(always)]
            fn store(atomic: &$atomic, value: Self, order: Ordering) {
                atomic.store(value, order)
            }
            #[inline(always)]
            fn swap(atomic: &$atomic, value: Self) -> Self {
                atomic.swap(value, Ordering::SeqCst)
            }
            #[inline(always)]
            fn fetch_add(atomic: &$atomic, value: Self) -> Self {
                atomic.fetch_add(value, Ordering::SeqCst)
            }
            #[inline(always)]
            fn compare_exchange(atomic: &$atomic, old: Self, new: Self) -> Result<Self, Self> {
                atomic.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
            }
        }
    )*};
}

impl_word! {
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// An aligned word in shared memory.
pub struct Word<'a, W: WordType>(&'a W::Atomic, PhantomData<W>);

impl<W: WordType> Clone for Word<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: WordType> Copy for Word<'_, W> {}

impl<'a, W: WordType> Word<'a, W> {
    /// # Safety
    ///
    /// `ptr` must be aligned, and valid for reads and writes during `'a`. The kernel must access
    /// that word atomically or by the functions of `copy` only, or by C code.
    #[inline]
    pub(crate) unsafe fn new(ptr: *mut W) -> Self {
        // SAFETY: By the contract of this function the word is valid, and accessed atomically. The
        // atomics have the layout of their integers.
        Self(unsafe { &*ptr.cast::<W::Atomic>() }, PhantomData)
    }

    /// Reads the word. Later accesses are not moved before this (`smp_load_acquire()`).
    #[inline]
    pub fn load_acquire(self) -> W {
        W::load(self.0, Ordering::Acquire)
    }

    /// Reads the word once, without order (`READ_ONCE()`).
    #[inline]
    pub fn load_relaxed(self) -> W {
        W::load(self.0, Ordering::Relaxed)
    }

    /// Writes the word. Earlier accesses are not moved after this (`smp_store_release()`).
    #[inline]
    pub fn store_release(self, value: W) {
        W::store(self.0, value, Ordering::Release);
    }

    /// Writes the word once, without order (`WRITE_ONCE()`).
    #[inline]
    pub fn store_relaxed(self, value: W) {
        W::store(self.0, value, Ordering::Relaxed);
    }

    /// Writes the word, followed by a full barrier (`smp_store_mb()`).
    #[inline]
    pub fn store_mb(self, value: W) {
        W::store(self.0, value, Ordering::Relaxed);
        mb();
    }

    /// Replaces the word and returns the old value, with full order (`xchg()`).
    #[inline]
    pub fn swap(self, value: W) -> W {
        W::swap(self.0, value)
    }

    /// Adds to the word, which wraps, and returns the old value, with full order
    /// (`atomic_fetch_add()`).
    #[inline]
    pub fn fetch_add(self, value: W) -> W {
        W::fetch_add(self.0, value)
    }

    /// Replaces `old` by `new`, with full order (`cmpxchg()`). Errors: the value, if it is not
    /// `old`.
    #[inline]
    pub fn compare_exchange(self, old: W, new: W) -> Result<W, W> {
        W::compare_exchange(self.0, old, new)
    }
}
