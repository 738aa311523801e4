// SPDX-License-Identifier: GPL-2.0

//! Whose an object is, and whose memory it takes.

use core::ptr::NonNull;
use kernel::{alloc::Flags, prelude::*};
use rdma_bindings as bindings;

/// Who uses an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consumer {
    /// A process: the current one, when the object is made.
    Process,
    /// A part of the kernel.
    Kernel,
}

impl Consumer {
    /// A process, if there is what only processes have: their request's data, or a mapped ring.
    pub fn of<T>(process: &Option<T>) -> Self {
        match process {
            Some(_) => Consumer::Process,
            None => Consumer::Kernel,
        }
    }

    /// How memory for the object is allocated. Context: sleeping.
    ///
    /// That of a process is charged to its memory cgroup. The kernel's is nobody's: what a worker
    /// of a storage driver makes for all must not fail because the one in whose context it runs has
    /// had enough.
    pub fn flags(self) -> Flags {
        match self {
            Consumer::Process => GFP_KERNEL_ACCOUNT,
            Consumer::Kernel => GFP_KERNEL,
        }
    }
}

/// The process that an object was made by, or the kernel's threads.
///
/// The RDMA core looks up most objects in the file of the process that asks. Not so when a process
/// connects: it names its queue pair by number, and all queue pairs of a device have numbers.
///
/// Only the process' number is kept, which is not given away while this is there; the process, its
/// credentials and its cgroup may go.
pub struct Owner {
    pid: NonNull<bindings::pid>,
    consumer: Consumer,
}

// SAFETY: It is a counted reference to a `struct pid`, which belongs to no thread.
unsafe impl Send for Owner {}
// SAFETY: As above; only its address is looked at.
unsafe impl Sync for Owner {}

impl Owner {
    /// The current one, of an object that is for a process or for the kernel. Context: any but
    /// interrupts.
    pub fn current(consumer: Consumer) -> Self {
        Self {
            // SAFETY: No requirements. The current process has a number.
            pid: unsafe { NonNull::new_unchecked(bindings::rdma_get_current_tgid()) },
            consumer,
        }
    }

    /// For whom the object is.
    pub fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Whether the process that the object is for has been killed, or has ended otherwise. Context:
    /// any.
    pub fn ends(&self) -> bool {
        // SAFETY: The number is valid as long as this is.
        self.consumer == Consumer::Process && unsafe { bindings::rdma_tgid_ends(self.pid.as_ptr()) }
    }

    /// Whether the current task may use the object: a thread of its owner's, a kernel thread, or a
    /// process with `CAP_NET_ADMIN` in the initial user namespace. Context: any but interrupts;
    /// they may be off.
    pub fn admits_current(&self) -> bool {
        // SAFETY: No requirements.
        unsafe {
            bindings::rdma_is_current_tgid(self.pid.as_ptr())
                || bindings::rdma_in_kernel_thread()
                || bindings::rdma_current_may_all()
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: The reference is this one's.
        unsafe { bindings::put_pid(self.pid.as_ptr()) };
    }
}
