// SPDX-License-Identifier: GPL-2.0

//! The socket lock: a proof that it is held, and state guarded by it.
//!
//! A socket is locked either by softirq code while it processes a packet, or by a process, for
//! which softirq code then queues packets that are processed when the lock is given back. Whoever
//! has the lock has a [`LockedSock`], and there is only one per socket at a time: callbacks get one
//! from TCP, everybody else by [`TcpSocket::lock`]. State that belongs to the receive side of a
//! connection lives in a [`SockCell`] and needs no other lock.

use crate::{bindings, TcpSocket};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{error::Result, prelude::*, types::NotThreadSafe};

/// A socket whose lock is held.
///
/// INVARIANT: `sk` is a socket, locked as long as this object is there, and no other `LockedSock`
/// of it exists meanwhile.
pub struct LockedSock {
    sk: *mut bindings::sock,
    /// Whoever locked must unlock.
    _not_send: NotThreadSafe,
}

impl LockedSock {
    /// # Safety
    ///
    /// What the type invariant says must hold for as long as the result exists.
    pub(crate) unsafe fn new(sk: *mut bindings::sock) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            sk,
            _not_send: NotThreadSafe,
        }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::sock {
        self.sk
    }

    /// Whether nothing more will ever come: the peer's FIN was reached, or the connection is gone,
    /// and everything received was read.
    #[inline]
    pub fn at_eof(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::ksock_at_eof(self.sk) }
    }

    /// How many octets were received and not read yet.
    pub fn unread(&self) -> usize {
        // SAFETY: By the type invariant; all sockets of this crate are TCP sockets.
        unsafe { bindings::ksock_unread(self.sk) as usize }
    }

    /// Ends what a receiver does behind a silence, and at the begin of a connection: TCP acknowledges each of
    /// the next 16 packets for itself, however many come together. It goes on to acknowledge whatever is more
    /// than a segment, when it is read at the latest. Lasts until a delayed acknowledgement is sent, or a
    /// segment is missing. C: `TCP_QUICKACK`, 0.
    pub fn spare_acks(&mut self) {
        // SAFETY: By the type invariant; all sockets of this crate are TCP sockets.
        unsafe { bindings::ksock_spare_acks(self.sk) }
    }

    /// As [`TcpSocket::mss`].
    pub fn mss(&self) -> u32 {
        // SAFETY: By the type invariant; all sockets of this crate are TCP sockets.
        unsafe { bindings::ksock_mss(self.sk) }
    }
}

/// The socket lock, held by a process. Giving it back runs the callbacks of what arrived meanwhile.
pub struct SockGuard<'a> {
    locked: LockedSock,
    socket: &'a TcpSocket,
    _lifetime: PhantomData<&'a ()>,
}

impl TcpSocket {
    /// Locks the socket. C: `lock_sock()`. Sleeping; not from a callback of this socket.
    pub fn lock(&self) -> SockGuard<'_> {
        let sk = self.sk();
        // SAFETY: `sk` is there as long as `self` is.
        unsafe { bindings::ksock_lock(sk) };
        // SAFETY: Locked above.
        unsafe { self.hook_slot().set_busy(true) };
        SockGuard {
            // SAFETY: The lock is held until the guard is dropped. Softirq code does not call
            // `data_ready()` meanwhile, other processes wait for the lock, and against calls from
            // this very thread there is the busy mark.
            locked: unsafe { LockedSock::new(sk) },
            socket: self,
            _lifetime: PhantomData,
        }
    }
}

impl Deref for SockGuard<'_> {
    type Target = LockedSock;

    fn deref(&self) -> &LockedSock {
        &self.locked
    }
}

impl DerefMut for SockGuard<'_> {
    fn deref_mut(&mut self) -> &mut LockedSock {
        &mut self.locked
    }
}

impl Drop for SockGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: The guard holds the lock.
        if unsafe { self.socket.hook_slot().set_busy(false) } {
            // SAFETY: The guard holds the lock, and `self.locked` is not used meanwhile.
            unsafe { bindings::ksock_look_again(self.locked.as_ptr()) };
        }
        // SAFETY: The guard holds the lock, and `self.locked` is not used again.
        unsafe { bindings::ksock_unlock(self.locked.as_ptr()) };
    }
}

/// A value guarded by the lock of one socket.
///
/// It starts out belonging to no socket, and is claimed for one by [`SockCell::claim`].
pub struct SockCell<T> {
    /// INVARIANT: If not null, it changes only while that socket's only [`LockedSock`] is
    /// exclusively borrowed.
    sk: AtomicPtr<bindings::sock>,
    value: UnsafeCell<T>,
}

// SAFETY: Moving the cell moves the value.
unsafe impl<T: Send> Send for SockCell<T> {}
// SAFETY: Through a shared reference the value is accessed only with a `LockedSock` of the socket
// `sk` in hand, of which there is one at a time. If the memory of that socket is used for another
// one later, the same holds for the other one, and there can be none of the old one any more.
// References of several threads one after the other need `T: Send`.
unsafe impl<T: Send> Sync for SockCell<T> {}

impl<T> SockCell<T> {
    /// Makes a cell that belongs to no socket yet.
    pub const fn new(value: T) -> Self {
        Self {
            sk: AtomicPtr::new(ptr::null_mut()),
            value: UnsafeCell::new(value),
        }
    }

    /// Lets the lock of this socket guard the cell from now on. Fails with `EBUSY` if it belongs to
    /// another socket.
    pub fn claim(&self, sk: &mut LockedSock) -> Result {
        let ours = sk.as_ptr();
        match self
            .sk
            .compare_exchange(ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(()),
            Err(sk) if sk == ours => Ok(()),
            Err(_) => Err(EBUSY),
        }
    }

    /// Lets the cell belong to no socket again. Fails with `EINVAL` if it does not belong to this
    /// one.
    pub fn release(&self, sk: &mut LockedSock) -> Result {
        match self.sk.compare_exchange(
            sk.as_ptr(),
            ptr::null_mut(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(()),
            Err(_) => Err(EINVAL),
        }
    }

    fn guarded_by(&self, sk: &LockedSock) -> bool {
        self.sk.load(Ordering::Acquire) == sk.as_ptr()
    }

    /// The value, or `None` if the cell does not belong to this socket.
    pub fn get<'a>(&'a self, sk: &'a LockedSock) -> Option<&'a T> {
        if !self.guarded_by(sk) {
            return None;
        }
        // SAFETY: `sk` is the only `LockedSock` of the socket that guards the value, and while it
        // is borrowed shared there are shared references only.
        Some(unsafe { &*self.value.get() })
    }

    /// The value, or `None` if the cell does not belong to this socket.
    pub fn get_mut<'a>(&'a self, sk: &'a mut LockedSock) -> Option<&'a mut T> {
        if !self.guarded_by(sk) {
            return None;
        }
        // SAFETY: `sk` is the only `LockedSock` of the socket that guards the value, and it is
        // borrowed exclusively as long as the result is there.
        Some(unsafe { &mut *self.value.get() })
    }

    /// The value; nobody else can have a reference to the cell.
    pub fn get_mut_unique(&mut self) -> &mut T {
        self.value.get_mut()
    }
}
