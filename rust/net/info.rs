// SPDX-License-Identifier: GPL-2.0

//! What a socket tells of itself: addresses, state, and TCP's figures.

use crate::{addr, bindings, TcpSocket, TcpState};
use core::net::SocketAddr;
use kernel::{
    error::{to_result, Result},
    prelude::*,
};

impl TcpSocket {
    /// The local address. C: `kernel_getsockname()`. Sleeping.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        // SAFETY: All zeroes is a valid `sockaddr_storage`.
        let mut storage: bindings::sockaddr_storage = unsafe { core::mem::zeroed() };
        // SAFETY: By the type invariant the socket is valid, and `storage` has room for every
        // address.
        let len = unsafe { bindings::kernel_getsockname(self.as_ptr(), (&raw mut storage).cast()) };
        to_result(len)?;
        addr::from_storage(&storage)
    }

    /// The peer's address. Errors: `ENOTCONN` without a peer. C: `kernel_getpeername()`. Sleeping.
    pub fn peer_addr(&self) -> Result<SocketAddr> {
        // SAFETY: All zeroes is a valid `sockaddr_storage`.
        let mut storage: bindings::sockaddr_storage = unsafe { core::mem::zeroed() };
        // SAFETY: By the type invariant the socket is valid, and `storage` has room for every
        // address.
        let len = unsafe { bindings::kernel_getpeername(self.as_ptr(), (&raw mut storage).cast()) };
        to_result(len)?;
        addr::from_storage(&storage)
    }

    /// The state of the connection at this moment. Context: any.
    pub fn state(&self) -> TcpState {
        // SAFETY: By the type invariant the socket and its `sk` are valid.
        TcpState::from_raw(unsafe { bindings::ksock_state(self.as_ptr()) })
    }

    /// Removes the pending error from the socket and returns it. C: `sock_error()`. Context: any.
    pub fn take_error(&self) -> Option<Error> {
        // SAFETY: By the type invariant the socket and its `sk` are valid.
        to_result(unsafe { bindings::ksock_take_error(self.as_ptr()) }).err()
    }

    /// Bytes that TCP was given and has not sent, as of a moment ago. Context: any.
    #[inline]
    pub fn unsent(&self) -> usize {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_unsent(self.sk()) as usize }
    }

    /// Bytes that TCP was given and the peer has not acknowledged, as of a moment ago. Context:
    /// any.
    pub fn unacked(&self) -> usize {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_unacked(self.sk()) as usize }
    }

    /// Payload bytes of a full segment at this moment, without TCP options (`tp->mss_cache`). TCP
    /// updates it with every send. Context: any.
    #[inline]
    pub fn mss(&self) -> u32 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_mss(self.sk()) }
    }

    /// The most bytes, up to `most`, that TCP sends in packets of its largest size only
    /// (`tp->gso_segs`); half of `most` at least. One byte more takes one packet more. Context:
    /// any.
    pub fn whole_packets(&self, most: usize) -> usize {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        let segments = unsafe { bindings::ksock_gso_segs(self.sk()) };
        whole_packets(most, self.mss() as usize, segments.into())
    }

    /// Bytes that the peer has acknowledged so far. Context: any.
    pub fn bytes_acked(&self) -> u64 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_bytes_acked(self.sk()) }
    }

    /// Segments that were sent again so far; wraps. Context: any.
    pub fn retransmits(&self) -> u32 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_retransmits(self.sk()) }
    }

    /// Segments that were received out of order so far; wraps. Context: any.
    pub fn out_of_order(&self) -> u32 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_out_of_order(self.sk()) }
    }

    /// Milliseconds since the peer's last acknowledgment, which need not be a new one. Context:
    /// any.
    pub fn last_ack_ms(&self) -> u32 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_last_ack_ms(self.sk()) }
    }

    /// The number that names the socket on this machine (`SO_COOKIE`); `ss -e` shows it as `sk:`,
    /// in hexadecimal. C: `sock_diag_save_cookie()`. Context: any but interrupts.
    pub fn cookie(&self) -> u64 {
        // SAFETY: By the type invariant `sk` is valid.
        unsafe { bindings::ksock_cookie(self.sk()) }
    }

    /// Bytes that were received so far. Context: any.
    pub fn bytes_received(&self) -> u64 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_bytes_received(self.sk()) }
    }

    /// Whether there is a useful amount of room to send. C: `sk_stream_is_writeable()`. Context:
    /// any.
    pub fn writable(&self) -> bool {
        // SAFETY: By the type invariant the socket and its `sk` are valid.
        unsafe { bindings::ksock_writable(self.as_ptr()) }
    }
}

/// See [`TcpSocket::whole_packets`]; a packet has `segments` segments of `segment` bytes.
fn whole_packets(most: usize, segment: usize, segments: usize) -> usize {
    let packet = match segments.saturating_mul(segment) {
        // TCP does not know yet, or a packet is longer than `most`.
        packet if packet == 0 || packet > most => segment,
        packet => packet,
    };
    let beyond = most.checked_rem(packet).unwrap_or(0);
    // A segment is longer than `most`.
    if beyond == most {
        return most;
    }
    most - beyond
}

#[kunit_tests(rsiw_net_info)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_whole() {
        for (segment, segments, whole) in [
            (1448, 45, 45 * 1448),
            (8948, 7, 7 * 8948),
            // A device that takes packets of 32 KiB: two of them.
            (1448, 22, 44 * 1448),
            // Room for one packet, and not for a second.
            (1448, 30, 30 * 1448),
            (1424, 45, 45 * 1424),
            // The size is not known, or more than a batch.
            (1448, 0, 45 * 1448),
            (1448, 128, 45 * 1448),
            (65483, 1, 65483),
            (70000, 1, 65536),
            (0, 7, 65536),
        ] {
            assert_eq!(whole_packets(65536, segment, segments), whole);
        }
        for segment in 1..66000 {
            for segments in [0, 1, 2, 7, 45, 65535] {
                let whole = whole_packets(65536, segment, segments);
                assert!(whole <= 65536 && whole >= 32768);
            }
        }
    }
}
