// SPDX-License-Identifier: GPL-2.0

//! A spinlock that interrupts and softirqs may take as well.
//!
//! The kernel crate's spinlock leaves interrupts as they are. Data of functions that the RDMA core
//! or the network calls in any context needs this lock: the same type with another backend. (Linux
//! 7.3 has a `SpinLockIrq` of its own, which counts how often interrupts were disabled. Linux 7.2,
//! which is supported, has not.)
//!
//! A guard restores the state of interrupts that it found. So guards of two such locks must be
//! dropped in the reverse order of locking, as scopes do. Otherwise interrupts are on while the
//! second lock is still held. That breaks no guarantee of memory, but an interrupt that wants the
//! lock would wait for ever on this processor. Lockdep reports it the first time that it happens.

use kernel::{
    ffi::{c_char, c_ulong},
    sync::lock::{Backend, Lock},
};
use rdma_bindings as bindings;

/// A spinlock that is held with interrupts disabled (`spin_lock_irqsave`).
pub type SpinLockIrq<T> = Lock<T, IrqBackend>;

/// Creates a [`SpinLockIrq`] initialiser with a lock class of its own.
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::lock::SpinLockIrq::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
pub use new_spinlock_irq;

/// Backend of [`SpinLockIrq`].
pub struct IrqBackend;

// SAFETY: `spinlock_t` gives mutual exclusion. The default `relock` takes the lock by `lock`.
unsafe impl Backend for IrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: By the trait's contract `ptr` is valid for writes, `name` and `key` live for
        // ever.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> c_ulong {
        // SAFETY: By the trait's contract the lock is initialised.
        unsafe { bindings::spin_lock_irqsave(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<c_ulong> {
        let mut flags = 0;
        // SAFETY: By the trait's contract the lock is initialised. `flags` is valid for writes.
        unsafe { bindings::spin_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, flags: &c_ulong) {
        // SAFETY: By the trait's contract the caller owns the lock, and `lock` or `try_lock`
        // returned `flags` when it took it.
        unsafe { bindings::spin_unlock_irqrestore(ptr, *flags) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: By the trait's contract the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
