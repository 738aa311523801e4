// SPDX-License-Identifier: GPL-2.0

//! What comes out of a step of tx.

use crate::{mem::MemError, queue::Seq, wr::Status};
use iwarp::Terminate;

/// The outcome of a step of tx.
pub(crate) enum Step {
    /// TCP has taken so many bytes. There may be more to send.
    Sent(usize),
    /// There is nothing to do, or another event will wake tx.
    Waits,
    /// As [`Step::Waits`], and the queue is held: what it had begun may have drained.
    Held,
    /// There is more to do, which is left to the worker.
    Again,
    /// TCP has no memory, or there is no page for a batch. Nobody tells when there is.
    NoMemory,
    /// The stream is to be terminated. What is in the batch is sent first.
    Failed(Failed),
    /// An orderly close has nothing left to send, so the FIN may be sent.
    Drained,
    /// The Terminate, if one was due, is with TCP, so the connection may be closed.
    Terminated,
    /// The connection is gone.
    Broken,
}

/// A request that cannot be sent. It fails with this status, and the QP with it.
pub(crate) struct Failed {
    pub(crate) seq: Option<Seq>,
    pub(crate) status: Status,
    /// The Terminate for the peer, if the peer had a part in the failure.
    pub(crate) terminate: Option<Terminate>,
    /// The fault is counted and in the log, and the consumer has had the event.
    pub(crate) told: bool,
}

impl Failed {
    pub(super) fn new(seq: Option<Seq>, status: Status) -> Self {
        Self {
            seq,
            status,
            terminate: None,
            told: false,
        }
    }

    /// What rx has found, and told of.
    pub(super) fn of_peer(terminate: Terminate) -> Self {
        Self {
            terminate: Some(terminate),
            told: true,
            ..Self::new(None, Status::General)
        }
    }

    pub(super) fn memory(seq: Option<Seq>, e: MemError) -> Self {
        Self::new(seq, e.into())
    }
}

/// What tx has found when it looked for the next message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The current message.
    Message,
    /// None, and there is none.
    Nothing,
    /// None so far: tx has looked at as many requests as one look may, or as have slots.
    NotYet,
}

impl Found {
    /// A message, if there is one.
    pub(super) fn message(there_is: bool) -> Self {
        if there_is {
            Self::Message
        } else {
            Self::Nothing
        }
    }
}

/// How much of what there is to send is in the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// All of it.
    Whole,
    /// A part: as much as has room, or as one look at the queue can find.
    Part,
    /// None, as there is no memory.
    NoMemory,
}
