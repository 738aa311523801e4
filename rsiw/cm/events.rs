// SPDX-License-Identifier: GPL-2.0

//! What the actor of a connection is told.

use core::sync::atomic::{AtomicU32, Ordering};
use kernel::impl_flags;

impl_flags!(
    /// Events since the actor last looked.
    #[derive(Clone, Copy)]
    pub(super) struct Events(u32);

    /// What the actor is told.
    #[derive(Clone, Copy)]
    pub(super) enum Event {
        /// The socket has data, a FIN, another state or an error.
        Socket = 1 << 0,
        /// The timer of the stage ran out.
        Timeout = 1 << 1,
        /// [`Conn::close`](super::Conn::close) was called.
        Close = 1 << 2,
        /// The queue pair has handed all it had to TCP.
        Drained = 1 << 3,
        /// The peer's FIN was reached at the end of an FPDU.
        Eof = 1 << 4,
        /// The peer's FIN was reached elsewhere: it cuts something short.
        Cut = 1 << 5,
        /// The queue pair is about to send a Terminate.
        Fault = 1 << 6,
        /// The device is about to be removed.
        Leave = 1 << 7,
        /// Another connection needs the listener's slot of this one. It is given up unless its
        /// Request has come.
        GiveWay = 1 << 8,
        /// The TLS handshake has ended.
        Tls = 1 << 9,
        /// It is this connection's turn: to make a TLS handshake, or to be reported to the
        /// consumer.
        Turn = 1 << 10,
    }
);

/// The events that the actor has not taken yet. Context: any.
pub(super) struct PendingEvents(AtomicU32);

impl PendingEvents {
    /// None.
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Adds one. Who takes it sees what was written before.
    #[inline]
    pub(super) fn add(&self, event: Event) {
        self.0.fetch_or(event as u32, Ordering::Release);
    }

    /// Whether there are any.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Takes all.
    #[inline]
    pub(super) fn take(&self) -> Events {
        Events(self.0.swap(0, Ordering::Acquire))
    }
}
