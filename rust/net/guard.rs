// SPDX-License-Identifier: GPL-2.0

//! The socket lock as a process takes it.

use crate::{bindings, LockedSock, TcpSocket};
use core::ops::{Deref, DerefMut};

/// The socket lock, held by a process. Dropping the guard processes the packets that arrived
/// meanwhile, and so calls the socket's callbacks.
pub struct SockGuard<'a> {
    locked: &'a mut LockedSock,
    socket: &'a TcpSocket,
}

impl TcpSocket {
    /// Locks the socket. C: `lock_sock()`. Sleeping. Not to be called from a callback of this
    /// socket, which would wait for itself.
    pub fn lock(&self) -> SockGuard<'_> {
        let sk = self.sk();
        // SAFETY: `self` owns the socket, and `sk` with it.
        unsafe { bindings::ksock_lock(sk) };
        // SAFETY: The lock was taken above.
        unsafe { self.hook_slot().set_busy() };
        SockGuard {
            // SAFETY: The lock is held until the guard is dropped. Meanwhile softirqs queue their
            // packets, and other processes wait for the lock. TCP may call `data_ready` out of a
            // function that this thread calls; the busy mark puts that off.
            locked: unsafe { LockedSock::from_raw(sk) },
            socket: self,
        }
    }
}

impl Deref for SockGuard<'_> {
    type Target = LockedSock;

    fn deref(&self) -> &LockedSock {
        self.locked
    }
}

impl DerefMut for SockGuard<'_> {
    fn deref_mut(&mut self) -> &mut LockedSock {
        self.locked
    }
}

impl Drop for SockGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: The guard holds the lock, which is that of the slot's socket.
        if unsafe { self.socket.hook_slot().clear_busy() } {
            // SAFETY: The guard holds the lock. `self.locked` is not used during the call, so the
            // `LockedSock` that `data_ready` gets is the only one in use.
            unsafe { bindings::ksock_look_again(self.locked.as_ptr()) };
        }
        // SAFETY: The guard holds the lock, and `self.locked` is not used again.
        unsafe { bindings::ksock_unlock(self.locked.as_ptr()) };
    }
}
