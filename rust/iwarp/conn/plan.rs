// SPDX-License-Identifier: GPL-2.0

//! What an attempt to connect takes from one of its connections to the next.

use super::timeout;

/// What an attempt to connect asks for and has left, from one of its connections to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The MPA revision of the Request.
    pub revision: u8,
    /// Whether FPDUs that are larger than a TCP segment are offered.
    pub large_fpdu: bool,
    /// Over TLS, and only so.
    pub secure: bool,
    /// The peer has to know all that the Request asks for: it is not asked for less.
    pub exact: bool,
    /// The queue pair is its own peer, so there is nobody to agree with.
    pub to_itself: bool,
    /// How long the peer may say nothing before the RTR is sent once more; 0: for ever.
    pub rtr_wait: u32,
    /// Milliseconds that TCP has to connect.
    pub(super) connect: u32,
    /// Milliseconds that are left for the turns to make TLS handshakes.
    pub(super) tls_wait: u32,
    /// How often the peer's TCP has refused the connection.
    pub(super) refused: u32,
}

impl Plan {
    /// An attempt that has all its time.
    pub const fn new(revision: u8, large_fpdu: bool, secure: bool, rtr_wait: u32) -> Self {
        Self {
            revision,
            large_fpdu,
            secure,
            exact: false,
            to_itself: false,
            rtr_wait,
            connect: timeout::CONNECT,
            tls_wait: timeout::TLS_WAIT,
            refused: 0,
        }
    }

    /// The same attempt, for a peer that has to know all that the Request asks for.
    pub const fn exactly(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }

    /// The same attempt, of a queue pair that is its own peer. A TCP socket that is connected to
    /// itself receives what it sends; so it has no Request to send, and does without TLS.
    pub const fn to_itself(self) -> Self {
        Self {
            to_itself: true,
            secure: false,
            ..self
        }
    }
}
