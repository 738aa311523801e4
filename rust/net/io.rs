// SPDX-License-Identifier: GPL-2.0

//! Moving bytes: reading within the socket lock, sending from pages, and the small exact reads and
//! sends of a handshake.

use crate::{
    batch::Bytes, bindings, partial::PartialPages, LockedSock, PagePool, SockCell, TcpSocket,
    TxBatch,
};
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

/// What became of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// So many bytes were taken, at least one, possibly less than offered.
    Bytes(usize),
    /// There is no room; [`SockCallbacks::write_space`] tells when there is.
    ///
    /// [`SockCallbacks::write_space`]: crate::SockCallbacks::write_space
    WouldBlock,
}

/// What became of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes arrived, at least one.
    Bytes(usize),
    /// There is nothing at the moment.
    WouldBlock,
    /// The peer's FIN was reached.
    Eof,
}

#[inline]
fn sent(ret: c_int) -> Result<Sent> {
    match usize::try_from(ret) {
        // TCP does not say so; who sends in a loop would spin.
        Ok(0) => return Err(EIO),
        Ok(n) => return Ok(Sent::Bytes(n)),
        Err(_) => {}
    }
    match to_result(ret) {
        Err(e) if e != EAGAIN => Err(e),
        _ => Ok(Sent::WouldBlock),
    }
}

impl TcpSocket {
    /// Sends a few bytes by copying them, to pages of `pool`; what is sent next begins a segment. C:
    /// `tcp_sendmsg()`. Sleeping, but not for the network.
    pub fn send(&self, bytes: &[u8], pool: Option<&PagePool>) -> Result<Sent> {
        if bytes.is_empty() {
            return Err(EINVAL);
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
            // SAFETY: `self` keeps the socket, and the bytes are valid for reads of their length. `frag`
            // has a page whose rest nobody else uses, or none.
            unsafe {
                let start = bytes.as_ptr().cast();
                bindings::ksock_send(self.sk(), start, bytes.len(), frag, segment_offset, end)
            }
        })
    }

    /// Sends what a batch has. A short one is copied; of others TCP refers to the pages, which is all
    /// it needs: the batch may be refilled after this returns. (If the route's device has no
    /// scatter/gather, TCP copies.)
    ///
    /// Where its frames lie in segments is told by [`TxBatch::align_to`]. While the device is busy, TCP
    /// keeps what is less than a segment, so that it can be shared.
    ///
    /// C: `tcp_sendmsg(MSG_SPLICE_PAGES)`. Sleeping, but not for the network. What arrived
    /// meanwhile is processed before this returns, see the crate's documentation.
    #[inline]
    pub fn send_batch(&self, batch: &mut TxBatch) -> Result<Sent> {
        let (mut segment_offset, end) = batch.alignment_hint();
        let ret = match batch.bytes() {
            Bytes::Small([]) | Bytes::Pages([]) => return Err(EINVAL),
            Bytes::Small(bytes) => self.send_small(bytes, batch.pool(), &mut segment_offset, end),
            Bytes::Pages(spans) => {
                let count = u32::try_from(spans.len()).map_err(|_| EINVAL)?;
                let spans = spans.as_ptr().cast();
                // SAFETY: `self` keeps the socket. A `PageSpan` has the layout of `bio_vec` and
                // describes memory of a page it has a reference of, which nobody writes as long as
                // anybody else has one; TCP takes references of its own. Together the spans have
                // `batch.len()` bytes.
                unsafe {
                    let (sk, len) = (self.sk(), batch.len());
                    bindings::ksock_send_pages(sk, spans, count, len, &mut segment_offset, end)
                }
            }
        };
        batch.set_segment_offset(segment_offset);
        sent(ret)
    }

    /// Receives no more bytes than there is room for, so that a handshake can stop exactly where
    /// the stream begins. C: `kernel_recvmsg()`. Sleeping, but not for the network.
    pub fn recv(&self, bytes: &mut [u8]) -> Result<Received> {
        if bytes.is_empty() {
            return Err(EINVAL);
        }
        // SAFETY: `self` keeps the socket, and the bytes are valid for writes of their length.
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
    /// As [`TcpSocket::send_batch`], for who has the socket locked, possibly in softirq. Does not
    /// sleep: TCP may be short of memory then, which looks as if it had no room, though no
    /// callback will tell that there is some; have somebody try again who may sleep.
    ///
    /// C: `tcp_sendmsg_locked()`.
    pub fn send_batch(&mut self, batch: &mut TxBatch) -> Result<Sent> {
        let (mut segment_offset, end) = batch.alignment_hint();
        let ret = match batch.bytes() {
            Bytes::Small([]) | Bytes::Pages([]) => return Err(EINVAL),
            Bytes::Small(bytes) => {
                let segment_offset = &mut segment_offset;
                PartialPages::lend(batch.pool().map(PagePool::partial), |frag| {
                    // SAFETY: By the type invariant the socket is locked, and the bytes are valid for
                    // reads of their length. `frag` has a page whose rest nobody else uses, or none.
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
                // SAFETY: By the type invariant the socket is locked. For the spans see
                // `TcpSocket::send_batch`.
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

    /// Hands every contiguous piece of what was received to `take`, in order and in place.
    ///
    /// `take` returns how much it consumed. Less than it got ends the reading; the rest stays in
    /// the socket, and the next reading begins there. Returns the bytes consumed. `EPROTO`: the
    /// peer sent urgent data, behind which the stream cannot be read.
    ///
    /// Over loopback they may lie in pages that a process has spliced into its socket and can still
    /// write to: whoever checks a byte and then relies on it must have read it once.
    ///
    /// C: `tcp_read_sock()`, `skb_seq_read()`. Does not sleep.
    pub fn read<F: FnMut(&[u8]) -> usize>(&mut self, mut take: F) -> Result<usize> {
        /// # Safety
        ///
        /// `ctx` must point to an `F` that nobody else uses, and `data` to `len` bytes that are
        /// valid for reads and that the kernel does not change, both for the time of the call.
        unsafe extern "C" fn chunk<F: FnMut(&[u8]) -> usize>(
            ctx: *mut c_void,
            data: *const u8,
            len: usize,
        ) -> usize {
            // SAFETY: By the contract of this function.
            let take = unsafe { &mut *ctx.cast::<F>() };
            // SAFETY: By the contract of this function.
            let data = unsafe { core::slice::from_raw_parts(data, len) };
            take(data).min(len)
        }

        let ctx: *mut F = &mut take;
        // SAFETY: By the type invariant the socket is locked. `ctx` is the `take` of this function,
        // used by nobody else during the call. What `skb_seq_read()` finds are bytes of received
        // packets, which stay there while the socket is locked, and which the kernel does not
        // change. (A process may, see above; like every reader of packets, those of `take` copy
        // or sum them in the kernel's routines, and take whatever value they find.)
        let ret = unsafe { bindings::ksock_read(self.as_ptr(), ctx.cast(), Some(chunk::<F>)) };
        usize::try_from(ret).or_else(|_| to_result(ret).map(|()| 0))
    }

    /// As [`LockedSock::read`], with the content of a cell that belongs to this socket, or
    /// `EINVAL` if it does not.
    pub fn read_into<T, F>(&mut self, cell: &SockCell<T>, mut take: F) -> Result<usize>
    where
        F: FnMut(&mut T, &[u8]) -> usize,
    {
        let value: *mut T = cell.get_mut(self).ok_or(EINVAL)?;
        self.read(|data| {
            // SAFETY: `self` is exclusively borrowed by this reading, and nobody else can have a
            // `LockedSock` of this socket, so the value is accessed here only.
            take(unsafe { &mut *value }, data)
        })
    }
}
