// SPDX-License-Identifier: GPL-2.0

//! Allocation without I/O.
//!
//! A disk or a file system may be on a connection of this device. If memory is short, an allocation
//! on the way to a new connection must not wait until pages are written to that disk: they would
//! wait for the connection. What the core and TCP allocate on our behalf is allocated the same
//! way, as the kernel keeps this with the task.

use core::marker::PhantomData;
use rdma_bindings as bindings;

/// While this is there, no allocation of the current task starts I/O (`memalloc_noio_save()`).
///
/// Invariant: it was made by the current task, and what was made after it goes before it, as it
/// stays in the local variable of the one function that makes it; [`noio`] sees to that.
struct NoIo {
    flags: u32,
    /// Of one task.
    _task: PhantomData<*mut ()>,
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: By the invariant these are the flags of this task, and the innermost ones.
        unsafe { bindings::rdma_noio_restore(self.flags) }
    }
}

/// Calls `f`, in which no allocation starts I/O. Context: as that of `f`; may be nested.
#[inline]
pub(crate) fn noio<R>(f: impl FnOnce() -> R) -> R {
    // INVARIANT: This goes when `f` has returned, and with it all that `f` made.
    let _scope = NoIo {
        // SAFETY: The call changes flags of the current task only.
        flags: unsafe { bindings::rdma_noio_save() },
        _task: PhantomData,
    };
    f()
}

/// As [`noio`] if the consumer is in the kernel; a process may wait for I/O.
#[inline]
pub(crate) fn noio_in_kernel<R>(udata: *mut bindings::ib_udata, f: impl FnOnce() -> R) -> R {
    if udata.is_null() {
        noio(f)
    } else {
        f()
    }
}
