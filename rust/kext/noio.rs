// SPDX-License-Identifier: GPL-2.0

//! Allocation without I/O.
//!
//! A disk or a file system may be reached through a connection of this device. If memory is short,
//! an allocation that a new connection needs must not wait until pages are written to that disk:
//! they would wait for the connection. The kernel keeps this state with the task, so it holds for
//! allocations that the core and TCP make on our behalf, too.

use core::marker::PhantomData;
use rdma_bindings as bindings;

/// While this exists, no allocation of the current task starts I/O (`memalloc_noio_save()`).
///
/// INVARIANT: The current task made it, and drops it after those that it made later. [`noio`],
/// which alone makes one and keeps it in a local variable, sees to that.
struct NoIo {
    flags: u32,
    /// It belongs to one task.
    _task: PhantomData<*mut ()>,
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: By the invariant these are flags of this task, and those saved last.
        unsafe { bindings::kext_noio_restore(self.flags) }
    }
}

/// Calls `f`, in which no allocation starts I/O. It may be nested. Context: that of `f`.
#[inline]
pub fn noio<R>(f: impl FnOnce() -> R) -> R {
    // INVARIANT: This is dropped when `f` has returned, and has dropped all that it made.
    let _scope = NoIo {
        // SAFETY: The function changes flags of the current task only.
        flags: unsafe { bindings::kext_noio_save() },
        _task: PhantomData,
    };
    f()
}

/// Calls `f`, as [`noio`] does if `if_so`.
#[inline]
pub fn noio_if<R>(if_so: bool, f: impl FnOnce() -> R) -> R {
    if if_so {
        noio(f)
    } else {
        f()
    }
}
