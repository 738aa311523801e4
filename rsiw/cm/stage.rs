// SPDX-License-Identifier: GPL-2.0

//! The stages of a connection, each of a type of its own, which the next step consumes.
//!
//! ```text
//! connect() --> (AwaitTurn) --> Connecting --> (Securing) --> AwaitReply ---+
//!                                                                 | other    v
//!                                                                 v format Streaming
//!                                                               Retry        ^ |
//!                                                                            | +--> Draining
//! listener --> (AwaitOctet) --> (Securing) --> AwaitRequest --> Requested ---+ |       |
//!                                                                 | reject     |       v
//!                                                                 v            |    FinSent
//!                                                               Linger <-------+       |
//!                                                                 |                    |
//!                                                                 +-----> Closed <-----+
//! ```
//!
//! Stages in parentheses are those of TLS. An initiator has its two only if it connects by TLS. A
//! responder that takes TLS has `AwaitOctet`, and `Securing` if the peer begins with TLS.
//!
//! An `AwaitRequest` comes to `Requested` by way of `Queued`, where the consumer has others to
//! answer. A `Connecting` that is refused comes to `Retry`, too, by way of `Backoff`. `AwaitReply`
//! and `AwaitRequest` go to `Linger` if this end has last words for the peer. Each stage may go to
//! `Closed`. The engine's machine ([`iwarp::conn`]) has the stages of initiators and those from
//! `Streaming` on, and `Run` drives it.

use super::{
    conn::{Conn, Events},
    initiator::Retry,
    responder::{AwaitRequest, Queued, Requested},
    run::Run,
    secure::{AwaitOctet, Securing},
    User,
};
use iwarp::conn::StageName;
use kernel::sync::Arc;

/// The stage of a connection.
pub(super) enum Stage<U: User> {
    /// Responder: the peer has connected, and may begin with TLS or with MPA.
    AwaitOctet(AwaitOctet<U>),
    /// Responder: the TLS handshake is made.
    Securing(Securing<U>),
    /// Responder: the peer has connected and owes an MPA Request.
    AwaitRequest(AwaitRequest<U>),
    /// Responder: the MPA Request has come, and waits to be reported to the consumer.
    Queued(Queued<U>),
    /// Responder: the MPA Request was reported to the consumer, which owes an answer.
    Requested(Requested<U>),
    /// A stage of the engine's machine: an initiator's, or one in which the queue pair owns the
    /// stream, or the connection ends.
    Run(Run<U>),
    /// The connection is over, and the attempt goes on with another one. The actor begins that at
    /// once, so no connection stays in this stage.
    Retry(Retry<U>),
    /// The connection is over, or has not begun.
    Closed,
}

impl<U: User> Stage<U> {
    /// The number of [`Stage::Retry`].
    pub(super) const RETRY: u8 = 12;

    /// The number that tracepoints know the stage by.
    pub(super) fn number(&self) -> u8 {
        match self {
            Stage::AwaitOctet(_) => 4,
            Stage::Securing(_) => 5,
            Stage::AwaitRequest(_) => 6,
            Stage::Requested(_) => 7,
            Stage::Run(run) => match run.stage() {
                StageName::AwaitTurn => 0,
                StageName::Connecting => 1,
                StageName::Backoff => 2,
                StageName::AwaitReply => 3,
                StageName::Securing => 5,
                StageName::Retry => Self::RETRY,
                StageName::Streaming => 8,
                StageName::Draining => 9,
                StageName::FinSent => 10,
                StageName::Linger => 11,
                StageName::New | StageName::Closed => 13,
            },
            Stage::Retry(_) => Self::RETRY,
            Stage::Closed => 13,
            Stage::Queued(_) => 14,
        }
    }

    /// The actor's step: reacts to `events`. Context: sleeping, the stage is locked.
    pub(super) fn step(self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        match self {
            Stage::AwaitOctet(stage) => stage.step(conn, events),
            Stage::Securing(stage) => stage.step(conn, events),
            Stage::AwaitRequest(stage) => stage.step(conn, events),
            Stage::Queued(stage) => stage.step(conn, events),
            Stage::Requested(stage) => stage.step(conn, events),
            Stage::Run(run) => run.step(conn, events),
            stage @ (Stage::Retry(_) | Stage::Closed) => stage,
        }
    }
}
