// SPDX-License-Identifier: GPL-2.0

//! The transport: what carries a stream's FPDUs between the two ends.
//!
//! Tx, and the stream where it receives, know a connection's data by this trait only; rx gets
//! chunks. TCP implements it below, and TLS on TCP with it: in the kernel, too, TLS is what a TCP
//! socket may have, and no other kind of socket. Another protocol is another implementation. How a
//! connection is set up and ended is `cm`'s business, not the transport's.

use iwarp::SharedByte;
use kernel::error::Result;
use net::{tls, LockedSock, Sent, SockCell, TcpSocket, TxBatch};

/// A byte stream in both directions, over a socket.
pub(crate) trait Transport {
    /// Bytes of the stream that the network carries as one segment at this moment. An FPDU best
    /// fits into one, and begins one. Context: any.
    fn segment_len(&self) -> u32;

    /// Bytes that were sent and are still here, so that the next batch may share the last segment
    /// of them. Context: any.
    fn unsent(&self) -> usize;

    /// The most bytes, up to `most` and at least half of it, that fill packets of the largest
    /// size. One byte more takes one packet more. Context: any.
    fn whole_packets(&self, most: usize) -> usize;

    /// Whether there is room to send. Context: any.
    fn has_room(&self) -> bool;

    /// Whether the receive callback can receive and send. Otherwise a worker has to, and both may
    /// sleep, receiving between one piece and the next. Context: any.
    fn works_in_callback(&self) -> bool;

    /// Sends the bytes of a batch, or the first of them. Context: sleeping, but does not wait for
    /// the network. Errors: the connection is gone.
    fn send(&self, batch: &mut TxBatch) -> Result<Sent>;

    /// Whether a batch of memory of others should be sent, which TCP refers to. Context: any.
    fn may_refer(&self) -> bool;

    /// The number of sends that have referred to such memory; wraps. Context: tx.
    fn referred(&self) -> u32;

    /// Sends that have released it, by their numbers from 0 on: the first and the last of them.
    /// Each send is in one such answer. Context: tx, not the callback.
    fn next_released(&self) -> Option<(u32, u32)>;

    /// As [`send`](Self::send), but from the receive callback, which must not sleep.
    /// [`Sent::WouldBlock`] may mean that there is no memory, in which case nobody tells when there
    /// is. Context: callback, socket locked; not unless it [works](Self::works_in_callback) there.
    fn send_locked(&self, sk: &mut LockedSock, batch: &mut TxBatch) -> Result<Sent>;

    /// Passes each piece of the received bytes to `take`, in order and in place, together with the
    /// value of `cell`. `take` returns how many bytes it has consumed; if that is less than the
    /// piece, reading ends, and the next read begins there. Context: any, socket locked; not the
    /// callback unless it [works](Self::works_in_callback) there. Errors: the stream cannot be read
    /// any more.
    fn read_into<T>(
        &self,
        sk: &mut LockedSock,
        cell: &SockCell<T>,
        take: impl FnMut(&mut T, &[SharedByte]) -> usize,
    ) -> Result<usize>;

    /// Bytes that were received and not read. Context: any, socket locked.
    fn unread(&self, sk: &LockedSock) -> usize;

    /// Whether the peer's end of the stream was read. Context: any, socket locked.
    fn at_eof(&self, sk: &LockedSock) -> bool;

    /// With TLS: `close_notify` came before the FIN. Context: any.
    fn eof_is_trusted(&self) -> bool;

    /// Tells that what comes is no message alone, so that each packet need not be acknowledged.
    /// Context: any, socket locked.
    fn leave_quickack(&self, sk: &mut LockedSock);
}

/// MPA on TCP, as RFC 5044 has it, or on TLS.
impl Transport for TcpSocket {
    #[inline]
    fn segment_len(&self) -> u32 {
        self.mss()
    }

    #[inline]
    fn unsent(&self) -> usize {
        TcpSocket::unsent(self)
    }

    fn whole_packets(&self, most: usize) -> usize {
        if self.is_secure() {
            // Each record has a header, a tag, and a price of its own.
            return match most {
                0..tls::MAX_RECORD => most,
                _ => most - most % tls::MAX_RECORD,
            };
        }
        TcpSocket::whole_packets(self, most)
    }

    fn has_room(&self) -> bool {
        self.writable()
    }

    #[inline]
    fn works_in_callback(&self) -> bool {
        !self.is_secure()
    }

    #[inline]
    fn send(&self, batch: &mut TxBatch) -> Result<Sent> {
        self.send_batch(batch)
    }

    fn may_refer(&self) -> bool {
        TcpSocket::may_refer(self)
    }

    fn referred(&self) -> u32 {
        TcpSocket::referred(self)
    }

    fn next_released(&self) -> Option<(u32, u32)> {
        TcpSocket::next_released(self)
    }

    fn send_locked(&self, sk: &mut LockedSock, batch: &mut TxBatch) -> Result<Sent> {
        sk.send_batch(batch)
    }

    #[inline]
    fn read_into<T>(
        &self,
        sk: &mut LockedSock,
        cell: &SockCell<T>,
        take: impl FnMut(&mut T, &[SharedByte]) -> usize,
    ) -> Result<usize> {
        TcpSocket::read_into(self, sk, cell, take)
    }

    #[inline]
    fn unread(&self, sk: &LockedSock) -> usize {
        sk.unread()
    }

    #[inline]
    fn at_eof(&self, sk: &LockedSock) -> bool {
        TcpSocket::at_eof(self, sk)
    }

    fn eof_is_trusted(&self) -> bool {
        TcpSocket::eof_is_trusted(self)
    }

    fn leave_quickack(&self, sk: &mut LockedSock) {
        sk.leave_quickack();
    }
}
