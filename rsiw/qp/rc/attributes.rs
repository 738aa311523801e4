// SPDX-License-Identifier: GPL-2.0

//! What a program has set of a queue pair that it connects itself.

use crate::{
    queue::state::State,
    stream::{Endpoint, Stream},
};
use kernel::sync::Arc;
use rdma::{QpPath, QpState};

/// What the program has set.
pub(in crate::qp) struct Attributes {
    /// The state that the program has led to. See [`Self::state`].
    pub(super) state: QpState,
    pub(super) access: rdma::Access,
    /// RDMA Reads that the peer may have under way, and this end.
    pub(super) reads: (u8, u8),
    pub(super) path: QpPath,
    /// Has the queue pair connected, from RTR on.
    pub(super) endpoint: Option<Arc<Endpoint>>,
    /// The queue pair is destroyed.
    pub(super) destroyed: bool,
}

impl Attributes {
    /// A queue pair in RESET.
    pub(in crate::qp) const fn new() -> Self {
        Self {
            state: QpState::Reset,
            access: rdma::Access::from_bits(0),
            reads: (0, 0),
            path: QpPath::NONE,
            endpoint: None,
            destroyed: false,
        }
    }

    /// Ends what has the queue pair connected.
    pub(super) fn close(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.close();
        }
    }

    /// The state.
    pub(super) fn state(&self, stream: &Stream) -> QpState {
        match stream.queues.state() {
            State::Terminate | State::Error => QpState::Err,
            State::Idle | State::Rts | State::Closing => self.state,
        }
    }
}
