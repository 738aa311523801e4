// SPDX-License-Identifier: GPL-2.0

//! References to a `sock` that may outlast its socket.

use crate::{bindings, TcpSocket};
use core::ptr::NonNull;

/// A reference to a `sock`, which keeps its memory and its network namespace.
pub(crate) struct SockRef(
    /// INVARIANT: A TCP `sock` to which this object has a reference.
    NonNull<bindings::sock>,
);

// SAFETY: References to a `sock` belong to no thread, and any thread may drop one.
unsafe impl Send for SockRef {}
// SAFETY: A shared `SockRef` gives away a pointer and nothing else.
unsafe impl Sync for SockRef {}

impl SockRef {
    pub(crate) fn new(socket: &TcpSocket) -> Self {
        let sk = socket.sock();
        // SAFETY: `socket` has its `sk` until it is dropped.
        unsafe { bindings::ksock_hold(sk.as_ptr()) };
        // INVARIANT: The reference was taken above.
        Self(sk)
    }

    pub(crate) fn as_ptr(&self) -> *mut bindings::sock {
        self.0.as_ptr()
    }

    /// Whether this is the `sk` of `socket`.
    pub(crate) fn is_of(&self, socket: &TcpSocket) -> bool {
        // While there is this reference, the memory is that of no other one.
        self.0 == socket.sock()
    }
}

impl Drop for SockRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours.
        unsafe { bindings::ksock_put(self.as_ptr()) };
    }
}
