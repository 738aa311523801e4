// SPDX-License-Identifier: GPL-2.0

//! The stages of a connection, each a type that the next step consumes.
//!
//! ```text
//! connect() --> Connecting --> AwaitReply ----------+
//!                                  | other format    v
//!                                  v             Streaming --> Draining --> FinSent
//!                                Retry               ^   |        |            |
//!                                                    |   |        |            |
//! listener --> AwaitRequest --> Requested -- accept -+   |        |            |
//!                                  | reject              |        |            |
//!                                  +-----> Linger <------+--------+            |
//!                                             |                                |
//!                                             +--------> Closed <--------------+
//! ```
//!
//! A `Connecting` that is refused comes to `Retry`, too, by way of `Backoff`. The way to `Closed` is open in
//! all of them: [`super::close`].

use super::{
    close::Linger,
    conn::{Conn, Events},
    initiator::{AwaitReply, Backoff, Connecting, Retry},
    responder::{AwaitRequest, Requested},
    streaming::{Draining, FinSent, Streaming},
    User,
};
use kernel::sync::Arc;

/// Where a connection is.
pub(super) enum Stage<U: User> {
    /// Initiator: TCP connects.
    Connecting(Connecting<U>),
    /// Initiator: TCP was refused, and is to be tried again.
    Backoff(Backoff<U>),
    /// Initiator: the MPA Request was sent.
    AwaitReply(AwaitReply<U>),
    /// Responder: the peer has connected.
    AwaitRequest(AwaitRequest<U>),
    /// Responder: the consumer was told of the MPA Request.
    Requested(Requested<U>),
    /// The queue pair owns the stream.
    Streaming(Streaming<U>),
    /// The queue pair sends what it has.
    Draining(Draining<U>),
    /// Our FIN is behind it.
    FinSent(FinSent<U>),
    /// The consumer is through with the connection; the peer may still take what was sent last.
    Linger(Linger<U>),
    /// Over, and to be tried again. Never stays: the actor does it at once.
    Retry(Retry<U>),
    /// Over. Also: not begun.
    Closed,
}

impl<U: User> Stage<U> {
    /// The actor's step: reacts to `events`. Context: sleeping, the stage is locked.
    pub(super) fn step(self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        match self {
            Stage::Connecting(stage) => stage.step(conn, events),
            Stage::Backoff(stage) => stage.step(conn, events),
            Stage::AwaitReply(stage) => stage.step(conn, events),
            Stage::AwaitRequest(stage) => stage.step(conn, events),
            Stage::Requested(stage) => stage.step(conn, events),
            Stage::Streaming(stage) => stage.step(conn, events),
            Stage::Draining(stage) => stage.step(conn, events),
            Stage::FinSent(stage) => stage.step(conn, events),
            Stage::Linger(stage) => stage.step(conn, events),
            stage @ (Stage::Retry(_) | Stage::Closed) => stage,
        }
    }
}
