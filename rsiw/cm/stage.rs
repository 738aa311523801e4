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
//! `Closed`; see [`super::close`]. From `Streaming` on the engine's machine has the stages
//! ([`iwarp::conn`]), and `Run` drives it.

use super::{
    conn::{Conn, Events},
    initiator::{AwaitReply, Connecting},
    responder::{AwaitRequest, Queued, Requested},
    retry::{Backoff, Retry},
    run::Run,
    secure::{AwaitOctet, AwaitTurn, Securing},
    User,
};
use iwarp::conn::StageName;
use kernel::sync::Arc;

/// The stage of a connection.
pub(super) enum Stage<U: User> {
    /// Initiator: others make their TLS handshakes first.
    AwaitTurn(AwaitTurn<U>),
    /// Initiator: TCP is connecting.
    Connecting(Connecting<U>),
    /// Initiator: TCP was refused. The attempt is repeated after a moment.
    Backoff(Backoff<U>),
    /// Initiator: the MPA Request was sent.
    AwaitReply(AwaitReply<U>),
    /// Responder: the peer has connected, and may begin with TLS or with MPA.
    AwaitOctet(AwaitOctet<U>),
    /// Both ends: the TLS handshake is made.
    Securing(Securing<U>),
    /// Responder: the peer has connected and owes an MPA Request.
    AwaitRequest(AwaitRequest<U>),
    /// Responder: the MPA Request has come, and waits to be reported to the consumer.
    Queued(Queued<U>),
    /// Responder: the MPA Request was reported to the consumer, which owes an answer.
    Requested(Requested<U>),
    /// The queue pair owns the stream, or the connection ends: a stage of the engine's machine.
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
            Stage::AwaitTurn(_) => 0,
            Stage::Connecting(_) => 1,
            Stage::Backoff(_) => 2,
            Stage::AwaitReply(_) => 3,
            Stage::AwaitOctet(_) => 4,
            Stage::Securing(_) => 5,
            Stage::AwaitRequest(_) => 6,
            Stage::Requested(_) => 7,
            Stage::Run(run) => match run.stage() {
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
            Stage::AwaitTurn(stage) => stage.step(conn, events),
            Stage::Connecting(stage) => stage.step(conn, events),
            Stage::Backoff(stage) => stage.step(conn, events),
            Stage::AwaitReply(stage) => stage.step(conn, events),
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
