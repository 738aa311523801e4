// SPDX-License-Identifier: GPL-2.0

//! The process that an object belongs to, and the one whose memory it takes.

use core::ptr::NonNull;
use kernel::{alloc::Flags, prelude::*};
use rdma_bindings as bindings;

/// The kind of consumer that uses an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consumer {
    /// A process: the current one when the object is made.
    Process,
    /// A part of the kernel.
    Kernel,
}

impl Consumer {
    /// A process if `process` is there: a request's data, or a mapped ring, which only processes
    /// have.
    pub fn of<T>(process: &Option<T>) -> Self {
        match process {
            Some(_) => Consumer::Process,
            None => Consumer::Kernel,
        }
    }

    /// The flags to allocate memory for the object with. Context: sleeping.
    ///
    /// Memory of a process is charged to its memory cgroup. Memory of the kernel is charged to
    /// none: a worker of a storage driver allocates for all, and must not fail because the cgroup
    /// in whose context it runs has reached its limit.
    pub fn flags(self) -> Flags {
        match self {
            Consumer::Process => GFP_KERNEL_ACCOUNT,
            Consumer::Kernel => GFP_KERNEL,
        }
    }
}

/// The process that made an object, or the kernel's threads.
///
/// The RDMA core looks up most objects in the file of the process that asks. To connect, however, a
/// process names a queue pair by its number, and all queue pairs of a device have numbers. So the
/// owner is checked then.
///
/// Only the `struct pid` is kept, whose number is not used again meanwhile. The process, its
/// credentials and its cgroup may go.
pub struct Owner {
    pid: NonNull<bindings::pid>,
    consumer: Consumer,
}

// SAFETY: It is a counted reference to a `struct pid`, which belongs to no thread.
unsafe impl Send for Owner {}
// SAFETY: A shared reference only passes the `struct pid` to C functions that any thread may call.
unsafe impl Sync for Owner {}

impl Owner {
    /// The current process, for an object that `consumer` uses. Context: any but interrupts.
    pub fn current(consumer: Consumer) -> Self {
        Self {
            // SAFETY: The function has no requirements. It returns a counted reference, and every
            // task has a thread group, so it is not null.
            pid: unsafe { NonNull::new_unchecked(bindings::rdma_get_current_tgid()) },
            consumer,
        }
    }

    /// The kind of consumer that uses the object.
    pub fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Whether the object is for a process that was killed, or has ended otherwise. Context: any.
    pub fn ends(&self) -> bool {
        // SAFETY: `self` has a reference to the `struct pid`.
        self.consumer == Consumer::Process && unsafe { bindings::rdma_tgid_ends(self.pid.as_ptr()) }
    }

    /// Whether the current task may use the object: a thread of its owner, a kernel thread, or a
    /// process with `CAP_NET_ADMIN` in the initial user namespace. Context: any but interrupts;
    /// interrupts may be disabled.
    pub fn admits_current(&self) -> bool {
        // SAFETY: `self` has a reference to the `struct pid`. The other functions read the current
        // task.
        unsafe {
            bindings::rdma_is_current_tgid(self.pid.as_ptr())
                || bindings::rdma_in_kernel_thread()
                || bindings::rdma_current_may_all()
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: `self` has a reference to give back, and it is not used again.
        unsafe { bindings::put_pid(self.pid.as_ptr()) };
    }
}
