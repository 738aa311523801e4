// SPDX-License-Identifier: GPL-2.0

//! What a connection is in between its steps.
//!
//! The engine's machine ([`iwarp::conn`]) has the stages of a connection, and the ways between them
//! (Documentation/connection.md shows these). [`Run`] drives it.

use super::{
    conn::{Conn, Events},
    initiator::Retry,
    run::Run,
    User,
};
use iwarp::conn::StageName;
use kernel::sync::Arc;

/// The stage of a connection.
pub(super) enum Stage<U: User> {
    /// A stage of the engine's machine.
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
            Stage::Run(run) => match run.stage() {
                StageName::AwaitTurn => 0,
                StageName::Connecting => 1,
                StageName::Backoff => 2,
                StageName::AwaitReply => 3,
                StageName::AwaitOctet => 4,
                StageName::Securing | StageName::AwaitTls => 5,
                StageName::AwaitRequest => 6,
                StageName::Requested => 7,
                StageName::Streaming => 8,
                StageName::Draining => 9,
                StageName::FinSent => 10,
                StageName::Linger => 11,
                StageName::Retry => Self::RETRY,
                StageName::New | StageName::Closed => 13,
                StageName::Queued => 14,
                StageName::Parked => 15,
            },
            Stage::Retry(_) => Self::RETRY,
            Stage::Closed => 13,
        }
    }

    /// The actor's step: reacts to `events`. Context: sleeping, the stage is locked.
    pub(super) fn step(self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        match self {
            Stage::Run(run) => run.step(conn, events),
            stage @ (Stage::Retry(_) | Stage::Closed) => stage,
        }
    }
}
