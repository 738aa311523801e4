// SPDX-License-Identifier: GPL-2.0

//! The socket lock: a proof that it is held, and state that it guards.
//!
//! A softirq locks a socket while it processes a packet. While a process has locked it, softirqs
//! queue their packets, which are processed when the process releases the lock. The holder of the
//! lock has a [`LockedSock`], one per socket at a time: a callback gets it as an argument, a
//! process from [`TcpSocket::lock`]. The receive state of a connection is in a [`SockCell`] and
//! needs no other lock.
//!
//! [`TcpSocket::lock`]: crate::TcpSocket::lock

use crate::bindings;
use core::{
    cell::UnsafeCell,
    marker::PhantomPinned,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{error::Result, prelude::*, types::NotThreadSafe};

/// A socket whose lock is held. There are only references to it, and they point to the `struct
/// sock` itself: to exchange what two of them refer to exchanges nothing.
///
/// INVARIANT: A reference is one to a TCP socket, which is locked as long as the reference is used.
/// No other `LockedSock` of the socket is used meanwhile. (A function that is given the reference
/// may release the lock and take it again before it returns; [`TcpSocket::read_into`] says when.)
///
/// [`TcpSocket::read_into`]: crate::TcpSocket::read_into
#[repr(C)]
pub struct LockedSock {
    /// Others change the socket, too.
    _sk: UnsafeCell<[u8; 0]>,
    _pin: PhantomPinned,
    /// Only the thread that locked may unlock.
    _not_send: NotThreadSafe,
}

impl LockedSock {
    /// # Safety
    ///
    /// `sk` must not be null, and the type invariant must hold for as long as the result is used.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(sk: *mut bindings::sock) -> &'a mut Self {
        // INVARIANT: By the contract of this function.
        // SAFETY: By the contract of this function `sk` is valid, and aligned for more than this
        // type needs, which has no size: nothing of the socket is borrowed.
        unsafe { &mut *sk.cast::<Self>() }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::sock {
        (&raw const *self).cast::<bindings::sock>().cast_mut()
    }

    /// Whether the stream has ended: everything received was read, and the peer's FIN was reached
    /// or the connection is gone.
    #[inline]
    pub fn at_eof(&self) -> bool {
        // SAFETY: By the type invariant `sk` is a TCP socket, and locked.
        unsafe { bindings::ksock_at_eof(self.as_ptr()) }
    }

    /// Bytes that were received and not read yet.
    pub fn unread(&self) -> usize {
        // SAFETY: By the type invariant `sk` is a TCP socket, and locked.
        unsafe { bindings::ksock_unread(self.as_ptr()) as usize }
    }

    /// Leaves TCP's quick-ACK mode, which the beginning of a connection and each idle period start,
    /// and in which TCP acknowledges up to 16 packets one by one, however many come together.
    /// Outside of it TCP acknowledges when more than a segment is unacknowledged, at the latest
    /// when that is read. Lasts until TCP sends a delayed acknowledgment or receives a segment
    /// twice. Many busy connections, each with a turn several times a second, have half as many
    /// acknowledgments with it. C: `TCP_QUICKACK` of 0.
    pub fn leave_quickack(&mut self) {
        // SAFETY: By the type invariant `sk` is a TCP socket, and locked.
        unsafe { bindings::ksock_leave_quickack(self.as_ptr()) }
    }

    /// As [`TcpSocket::mss`](crate::TcpSocket::mss).
    pub fn mss(&self) -> u32 {
        // SAFETY: By the type invariant `sk` is a TCP socket.
        unsafe { bindings::ksock_mss(self.as_ptr()) }
    }
}

/// A value guarded by the lock of one socket.
///
/// It belongs to no socket at first. [`SockCell::claim`] gives it to one.
pub struct SockCell<T> {
    /// The socket whose lock guards the value, or null.
    ///
    /// INVARIANT: If not null, it changes only while that socket's only [`LockedSock`] is
    /// exclusively borrowed.
    sk: AtomicPtr<bindings::sock>,
    value: UnsafeCell<T>,
}

// SAFETY: Moving the cell to another thread moves the value there, which `T: Send` allows.
unsafe impl<T: Send> Send for SockCell<T> {}
// SAFETY: A shared reference gives access to the value only together with a `LockedSock` of the
// socket `sk`, of which one is in use at a time and which cannot be shared between threads. If the
// memory of that socket is used for another one later, no `LockedSock` of the old one is left, and
// the same holds for the new one. Threads access the value one after the other, hence `T: Send`.
unsafe impl<T: Send> Sync for SockCell<T> {}

impl<T> SockCell<T> {
    /// Makes a cell that belongs to no socket yet.
    pub const fn new(value: T) -> Self {
        Self {
            sk: AtomicPtr::new(ptr::null_mut()),
            value: UnsafeCell::new(value),
        }
    }

    /// Gives the cell to the socket `sk`, whose lock guards it from now on. Errors: `EBUSY` if it
    /// belongs to another socket.
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

    /// Takes the cell from the socket `sk`; it belongs to none afterwards. Errors: `EINVAL` if it
    /// does not belong to `sk`.
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
        self.is_of(sk.as_ptr())
    }

    /// Whether the lock of `sk` guards the value.
    pub(crate) fn is_of(&self, sk: *const bindings::sock) -> bool {
        ptr::eq(self.sk.load(Ordering::Acquire), sk)
    }

    /// The value, or `None` if the cell does not belong to the socket `sk`.
    pub fn get<'a>(&'a self, sk: &'a LockedSock) -> Option<&'a T> {
        if !self.guarded_by(sk) {
            return None;
        }
        // SAFETY: `sk` is the only `LockedSock` in use of the socket whose lock guards the value.
        // While it is borrowed shared, there are shared references to the value only.
        Some(unsafe { &*self.value.get() })
    }

    /// The value, or `None` if the cell does not belong to the socket `sk`.
    pub fn get_mut<'a>(&'a self, sk: &'a mut LockedSock) -> Option<&'a mut T> {
        if !self.guarded_by(sk) {
            return None;
        }
        // SAFETY: `sk` is the only `LockedSock` in use of the socket whose lock guards the value,
        // and it is exclusively borrowed as long as the result is used.
        Some(unsafe { &mut *self.value.get() })
    }
}
