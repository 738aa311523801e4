// SPDX-License-Identifier: GPL-2.0

//! What the actor of a connection is told.

/// The events since the actor last looked, one bit each.
#[derive(Clone, Copy)]
pub(super) struct Events(pub(super) u32);

impl Events {
    /// The socket has data, a FIN, another state or an error.
    pub(super) const SOCKET: u32 = 1 << 0;
    /// The timer of the stage ran out.
    pub(super) const TIMEOUT: u32 = 1 << 1;
    /// [`Conn::close`](super::Conn::close) was called.
    pub(super) const CLOSE: u32 = 1 << 2;
    /// The queue pair has handed all it had to TCP.
    pub(super) const DRAINED: u32 = 1 << 3;
    /// The peer's FIN was reached at the end of an FPDU.
    pub(super) const EOF: u32 = 1 << 4;
    /// The peer's FIN was reached elsewhere: it cuts something short.
    pub(super) const CUT: u32 = 1 << 5;
    /// The queue pair is about to send a Terminate.
    pub(super) const FAULT: u32 = 1 << 6;
    /// The device is about to be removed.
    pub(super) const LEAVE: u32 = 1 << 7;
    /// Another connection needs the listener's slot of this one. It is given up unless its Request
    /// has come.
    pub(super) const GIVE_WAY: u32 = 1 << 8;
    /// The TLS handshake has ended.
    pub(super) const TLS: u32 = 1 << 9;
    /// It is this connection's turn: to make a TLS handshake, or to be reported to the consumer.
    pub(super) const TURN: u32 = 1 << 10;

    /// Whether any of `bits` happened.
    pub(super) fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
}
