// SPDX-License-Identifier: GPL-2.0

//! QP states, after the RDMA Verbs (iWARP) state diagram, and their names in the verbs API.
//!
//! ```text
//!            connection established
//!   IDLE ------------------------------> RTS
//!    | \                                  | \  \
//!    |  \ modify to ERROR      modify SQD |  \  \ protocol or access error, Terminate received
//!    |   \                     (graceful) |   \  \
//!    |    v                               v    \  v
//!    |   ERROR <---------------------- CLOSING  | TERMINATE
//!    |     ^          connection closed         |    |
//!    |     |                                    |    | connection closed
//!    |     +------------------------------------+----+
//!    |          connection lost, modify to ERROR
//! ```
//!
//! CLOSING goes to TERMINATE for the same reasons as RTS does. Modify to RESET leads from ERROR
//! back to IDLE, when the connection is gone and the queues are flushed. A queue pair that was
//! called by name goes back from RTS to IDLE if the caller was gone before it had sent anything.

use core::sync::atomic::{AtomicU32, Ordering};
use rdma::QpState;

/// State of a QP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum State {
    Idle = 0,
    Rts = 1,
    /// Orderly close: tx sends the requests that were posted, then TCP sends a FIN.
    Closing = 2,
    /// Tx is about to send a Terminate, or the peer's has arrived. No other data are sent or
    /// received.
    Terminate = 3,
    Error = 4,
}

impl State {
    fn from_u32(v: u32) -> Self {
        match v {
            0 => State::Idle,
            1 => State::Rts,
            2 => State::Closing,
            3 => State::Terminate,
            _ => State::Error,
        }
    }

    /// The verbs state that a query reports.
    pub(crate) fn to_verbs(self) -> QpState {
        match self {
            State::Idle => QpState::Init,
            State::Rts => QpState::Rts,
            State::Closing => QpState::Sqd,
            State::Terminate => QpState::Sqe,
            State::Error => QpState::Err,
        }
    }

    /// Whether `self -> to` is an edge of the diagram.
    fn may_become(self, to: State) -> bool {
        matches!(
            (self, to),
            (State::Idle, State::Rts | State::Error)
                | (
                    State::Rts,
                    State::Closing | State::Terminate | State::Error | State::Idle
                )
                | (State::Closing, State::Terminate | State::Error)
                | (State::Terminate, State::Error)
                | (State::Error, State::Idle)
        )
    }
}

/// The state of a QP. The data path reads it without a lock.
pub(crate) struct StateCell(AtomicU32);

impl StateCell {
    /// A cell in state IDLE.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(State::Idle as u32))
    }

    /// The current state. The load is an acquire: the caller sees all that was set up before the
    /// transition.
    pub(crate) fn get(&self) -> State {
        State::from_u32(self.0.load(Ordering::Acquire))
    }

    /// Goes to `to` if the diagram has that edge, and returns the state before. Otherwise the error
    /// is the current state, which has no such edge. Context: any; concurrent transitions are
    /// ordered, as the state is one word.
    pub(crate) fn advance(&self, to: State) -> Result<State, State> {
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let from = State::from_u32(now);
            if !from.may_become(to) {
                return Err(from);
            }
            match self
                .0
                .compare_exchange(now, to as u32, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(from),
                Err(seen) => now = seen,
            }
        }
    }
}
