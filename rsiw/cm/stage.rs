// SPDX-License-Identifier: GPL-2.0

//! What a connection is in between its steps, and the actor that makes them.
//!
//! The engine's machine ([`iwarp::conn`]) has the stages of a connection, and the ways between them
//! (Documentation/connection.md shows these). [`Run`] drives it.

use super::{
    conn::{Actor, Conn},
    consumer::Call,
    events::Events,
    initiator::Retry,
    run::Run,
    User,
};
use core::mem::take;
use iwarp::conn::{Input, StageName};
use kernel::sync::Arc;

/// The stage of a connection.
#[derive(Default)]
pub(super) enum Stage<U: User> {
    /// A stage of the engine's machine.
    Run(Run<U>),
    /// The connection is over, and the attempt goes on with another one. The actor begins that at
    /// once, so no connection stays in this stage.
    Retry(Retry<U>),
    /// The connection is over, or has not begun.
    #[default]
    Closed,
}

impl<U: User> From<Run<U>> for Stage<U> {
    fn from(run: Run<U>) -> Self {
        Stage::Run(run)
    }
}

impl<U: User> Actor for U {
    type Stage = Stage<U>;

    fn act(conn: &Arc<Conn<U>>) {
        let Some((mut stage, events)) = conn.try_stage() else {
            return;
        };
        let next = match take(&mut *stage) {
            Stage::Run(mut run) => {
                run.step(conn, events);
                Stage::after(conn, run)
            }
            over => over,
        };
        let retry = match next {
            Stage::Retry(retry) => retry,
            next => {
                *stage = next;
                drop(stage);
                return conn.look_again();
            }
        };
        // The retry makes another connection, with a stage of its own.
        drop(stage);
        retry.run(conn);
    }
}

impl<U: User> Stage<U> {
    /// The stage after a step.
    fn after(conn: &Conn<U>, run: Run<U>) -> Self {
        match run.stage() {
            StageName::Closed => Stage::Closed,
            StageName::Retry => {
                conn.trace_stage(StageName::Retry, StageName::Closed, Events::empty());
                match run.into_retry(conn) {
                    Some((attempt, why)) => Stage::Retry(Retry { attempt, why }),
                    None => Stage::Closed,
                }
            }
            _ => Stage::Run(run),
        }
    }

    /// Gives the consumer's answer to a Request, in place of the actor. Context: sleeping, the
    /// stage is locked.
    pub(super) fn answer(&mut self, conn: &Arc<Conn<U>>, input: Input, call: &mut Call<'_, U>) {
        *self = match take(self) {
            Stage::Run(mut run) => {
                run.answer(conn, input, call);
                Self::after(conn, run)
            }
            over => over,
        };
    }
}
