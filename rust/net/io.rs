// SPDX-License-Identifier: GPL-2.0

//! Sending and receiving: reads in place under the socket lock, sends from pages, and the small
//! copying sends and receives of a handshake.

use crate::{
    batch::Bytes,
    bindings,
    partial::PartialPages,
    progress::{chunk, sent, Received, Sent},
    LockedSock, PagePool, SockCell, TcpSocket, TxBatch,
};
use core::sync::atomic::AtomicU8;
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

impl TcpSocket {
    /// Sends a copy of `bytes`, which is made in a page of `pool`. The next send begins a segment.
    /// Errors: `EINVAL` if there are no bytes; TCP's. C: `tcp_sendmsg()`. Sleeping, but does not
    /// wait for the network.
    pub fn send(&self, bytes: &[u8], pool: Option<&PagePool>) -> Result<Sent> {
        if bytes.is_empty() {
            return Err(EINVAL);
        }
        if self.is_secure() {
            return self.tls_send(bytes);
        }
        sent(self.send_small(bytes, pool, &mut 0, true))
    }

    fn send_small(
        &self,
        bytes: &[u8],
        pool: Option<&PagePool>,
        segment_offset: &mut c_int,
        end: bool,
    ) -> c_int {
        PartialPages::lend(pool.map(PagePool::partial), |frag| {
            // SAFETY: `self` owns the socket. `bytes` are valid for reads of their length, and
            // `segment_offset` for reads and writes. `frag` has no page, or one of which nobody
            // else uses the bytes from its offset on.
            unsafe {
                let start = bytes.as_ptr().cast();
                bindings::ksock_send(self.sk(), start, bytes.len(), frag, segment_offset, end)
            }
        })
    }

    /// Sends the bytes of a batch. TCP copies a short one. Of a longer one it takes references to
    /// the pages, or copies if the device of the route has no scatter/gather. The caller may refill
    /// the batch when this returns.
    ///
    /// [`TxBatch::align_to`] says how the frames lie in segments. While the device is busy, TCP
    /// keeps an incomplete segment, so that the next batch can share it.
    ///
    /// C: `tcp_sendmsg(MSG_SPLICE_PAGES)`. Sleeping, but does not wait for the network. Packets
    /// that arrived meanwhile are processed before this returns, see the crate's documentation.
    #[inline]
    pub fn send_batch(&self, batch: &mut TxBatch) -> Result<Sent> {
        if self.is_secure() {
            return self.tls_send_batch(batch);
        }
        let (mut segment_offset, end) = batch.alignment_hint();
        let ret = match batch.bytes() {
            Bytes::Small([]) | Bytes::Pages([]) => return Err(EINVAL),
            Bytes::Small(bytes) => self.send_small(bytes, batch.pool(), &mut segment_offset, end),
            Bytes::Pages(spans) if batch.refers() => {
                return sent(self.send_referring(spans, batch.len(), end)?)
            }
            Bytes::Pages(spans) => {
                let count = u32::try_from(spans.len()).map_err(|_| EINVAL)?;
                let spans = spans.as_ptr().cast();
                // SAFETY: `self` owns the socket. A `PageSpan` has the layout of a `bio_vec`. It
                // describes bytes of a page, and has a reference to that page. Nobody writes to the
                // bytes as long as others have references; TCP takes its own. Together the spans
                // have `batch.len()` bytes. `segment_offset` is valid for reads and writes.
                unsafe {
                    let (sk, len) = (self.sk(), batch.len());
                    bindings::ksock_send_pages(sk, spans, count, len, &mut segment_offset, end)
                }
            }
        };
        batch.set_segment_offset(segment_offset);
        sent(ret)
    }

    /// Receives at most as many bytes as `bytes` has room for, so that a handshake can stop exactly
    /// where the stream begins. C: `kernel_recvmsg()`. Sleeping, but does not wait for the network.
    pub fn recv(&self, bytes: &mut [u8]) -> Result<Received> {
        if bytes.is_empty() {
            return Err(EINVAL);
        }
        if self.is_secure() {
            return self.tls_recv(bytes);
        }
        // SAFETY: `self` owns the socket, and `bytes` are valid for writes of their length.
        let ret =
            unsafe { bindings::ksock_recv(self.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
        match to_result(ret) {
            Ok(()) if ret == 0 => Ok(Received::Eof),
            Ok(()) => Ok(Received::Bytes(usize::try_from(ret).unwrap_or(0))),
            Err(e) if e == EAGAIN => Ok(Received::WouldBlock),
            Err(e) => Err(e),
        }
    }
}

impl LockedSock {
    /// As [`TcpSocket::send_batch`], for the holder of the socket lock, possibly in softirq. Does
    /// not sleep. When TCP is short of memory it therefore returns [`Sent::WouldBlock`], and no
    /// callback need follow: the caller then has a thread try again that may sleep.
    ///
    /// The batch must make no more than 16 packets. Before it makes another, TCP would process the
    /// packets that wait for the lock, which a process may be doing just now.
    ///
    /// C: `tcp_sendmsg_locked()`.
    pub fn send_batch(&mut self, batch: &mut TxBatch) -> Result<Sent> {
        let (mut segment_offset, end) = batch.alignment_hint();
        let ret = match batch.bytes() {
            Bytes::Small([]) | Bytes::Pages([]) => return Err(EINVAL),
            // The kernel allocates the notification with GFP_KERNEL.
            Bytes::Pages(_) if batch.refers() => return Err(EINVAL),
            Bytes::Small(bytes) => {
                let segment_offset = &mut segment_offset;
                PartialPages::lend(batch.pool().map(PagePool::partial), |frag| {
                    // SAFETY: By the type invariant the socket is locked. `bytes` are valid for
                    // reads of their length, and `segment_offset` for reads and writes. `frag` has
                    // no page, or one of which nobody else uses the bytes from its offset on.
                    unsafe {
                        let (sk, start) = (self.as_ptr(), bytes.as_ptr().cast());
                        bindings::ksock_send_locked(
                            sk,
                            start,
                            bytes.len(),
                            frag,
                            segment_offset,
                            end,
                        )
                    }
                })
            }
            Bytes::Pages(spans) => {
                let count = u32::try_from(spans.len()).map_err(|_| EINVAL)?;
                let spans = spans.as_ptr().cast();
                // SAFETY: By the type invariant the socket is locked. A `PageSpan` has the layout
                // of a `bio_vec`, and a reference to its page, to whose bytes nobody writes as long
                // as others have references. Together the spans have `batch.len()` bytes.
                unsafe {
                    let (sk, len) = (self.as_ptr(), batch.len());
                    bindings::ksock_send_pages_locked(
                        sk,
                        spans,
                        count,
                        len,
                        &mut segment_offset,
                        end,
                    )
                }
            }
        };
        batch.set_segment_offset(segment_offset);
        sent(ret)
    }

    /// Passes each contiguous piece of the received data to `take`, in order and in place.
    ///
    /// `take` returns how many bytes it consumed. If that is less than it was given, reading ends;
    /// the rest stays in the socket, and the next read begins there. Returns the number of bytes
    /// consumed. Errors: `EPROTO` if the peer sent urgent data, after which the stream cannot be
    /// read.
    ///
    /// Over loopback the data may lie in pages that a process has spliced into its socket and can
    /// still write to. So they are atomics, and code that checks a byte and then relies on it must
    /// read it once only. `take` must not store to them: they are the sender's, who may have them
    /// mapped for reading only.
    ///
    /// Errors: also `EINVAL` if the socket uses TLS.
    ///
    /// C: `tcp_read_sock()`, `skb_seq_read()`. Does not sleep.
    pub fn read<F: FnMut(&[AtomicU8]) -> usize>(&mut self, mut take: F) -> Result<usize> {
        let ctx: *mut F = &mut take;
        // SAFETY: By the type invariant the socket is locked. `ctx` points to this function's
        // `take`, which nobody else uses during the call. `skb_seq_read()` finds bytes of received
        // packets, and runs of them that touch are passed on as one. They are in pages that the
        // kernel maps side by side; that these were allocated one by one, the compiler does not
        // know. They stay while the socket is locked.
        let ret = unsafe { bindings::ksock_read(self.as_ptr(), ctx.cast(), Some(chunk::<F>)) };
        usize::try_from(ret).or_else(|_| to_result(ret).map(|()| 0))
    }

    /// As [`LockedSock::read`], and passes the value of `cell` to `take`, too. Errors: also
    /// `EINVAL`, if the cell does not belong to this socket.
    #[inline]
    pub fn read_into<T, F>(&mut self, cell: &SockCell<T>, mut take: F) -> Result<usize>
    where
        F: FnMut(&mut T, &[AtomicU8]) -> usize,
    {
        let value: *mut T = cell.get_mut(self).ok_or(EINVAL)?;
        self.read(|data| {
            // SAFETY: `self` is exclusively borrowed during the read, and no other `LockedSock` of
            // this socket is in use. So nobody else accesses the value.
            take(unsafe { &mut *value }, data)
        })
    }
}

impl TcpSocket {
    /// As [`LockedSock::read`], with TLS or without. With TLS it sleeps, and if another thread
    /// reads, a process that has the socket's file, it releases the lock for a moment. Errors: also
    /// `EINVAL`, if `sk` is another socket and this one uses TLS.
    pub fn read<F>(&self, sk: &mut LockedSock, take: F) -> Result<usize>
    where
        F: FnMut(&[AtomicU8]) -> usize,
    {
        if self.is_secure() {
            self.tls_read(sk, take)
        } else {
            sk.read(take)
        }
    }

    /// As [`LockedSock::read_into`], with TLS or without. With TLS as [`TcpSocket::read`] does.
    #[inline]
    pub fn read_into<T, F>(
        &self,
        sk: &mut LockedSock,
        cell: &SockCell<T>,
        mut take: F,
    ) -> Result<usize>
    where
        F: FnMut(&mut T, &[AtomicU8]) -> usize,
    {
        if !self.is_secure() {
            return sk.read_into(cell, take);
        }
        let value: *mut T = cell.get_mut(sk).ok_or(EINVAL)?;
        let raw = sk.as_ptr();
        self.tls_read(sk, |data| {
            // Another thread may have released the cell while the lock was not held.
            if !cell.is_of(raw) {
                return 0;
            }
            // SAFETY: `tls_read` calls this with the lock of `sk` held, which guards the value.
            // `sk` is exclusively borrowed during the read, and no other `LockedSock` of this
            // socket is in use. So nobody else accesses the value.
            take(unsafe { &mut *value }, data)
        })
    }
}
