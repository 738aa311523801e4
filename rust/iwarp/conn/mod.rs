// SPDX-License-Identifier: GPL-2.0

//! The life of a connection as a machine without I/O: when it waits, for how long, what it does
//! then, and how it ends.
//!
//! A [`Machine`] is in one stage, a value of one type per stage, which each transition consumes.
//! Its driver turns what happens to the connection into [`Input`]s, and tells with each of them
//! what it sees of the connection ([`Seen`]). The machine answers with the [`Rule`] that it goes
//! by. The driver executes the rule's [`Action`]s in their order, then sets its timer to
//! [`Machine::deadline`]. An action with a result ([`Action::SendFin`]) is answered by an input.
//!
//! All transitions are in one table, [`RULES`]. Documentation/connection.md shows it. So what iwcm
//! is told, and how often, can be read from the table, and is checked when the crate is compiled.
//!
mod action;
mod draining;
mod first;
mod initiator;
mod input;
mod linger;
pub mod names;
mod patience;
mod reply;
mod responder;
mod rules;
mod streaming;
pub mod timeout;

use core::mem::replace;
use patience::Patience;

pub use action::{Action, Lost, Report, SetUp, Status};
pub use draining::{Draining, FinSent};
pub use first::{First, Reply};
pub use initiator::{AwaitReply, AwaitTurn, Backoff, Connecting, Plan, Retry, Securing};
pub use input::Input;
pub use linger::Linger;
pub use reply::Answer;
pub use responder::{AwaitOctet, AwaitRequest, AwaitTls, Parked, Queued, Requested};
pub use rules::{Rule, StageName, RULES};
pub use streaming::Streaming;

/// What a driver sees of a connection when it gives an input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Milliseconds since the connection was made.
    pub now: i64,
    /// Octets that the peer has acknowledged.
    pub acked: u64,
    /// Milliseconds since the last acknowledgment, which may have been one of those octets'.
    pub acked_ago: u32,
    /// Octets that have come from the peer.
    pub received: u64,
    /// The peer's first FPDU has come.
    pub peer_started: bool,
    /// The device is about to be removed.
    pub leaving: bool,
    /// The process that connects has ended.
    pub orphaned: bool,
    /// The `acked` that tells that the peer has this end's Reply, once that is sent.
    pub reply_end: u64,
}

/// The stages of a connection.
#[derive(Clone, Debug)]
enum Stage {
    /// Others make their TLS handshakes first.
    AwaitTurn(AwaitTurn),
    /// TCP is connecting.
    Connecting(Connecting),
    /// TCP was refused.
    Backoff(Backoff),
    /// The TLS handshake is made.
    Securing(Securing),
    /// The MPA Request was sent.
    AwaitReply(AwaitReply),
    /// The attempt goes on with another connection.
    Retry(Retry),
    /// The peer has connected, and may begin with TLS or with MPA.
    AwaitOctet(AwaitOctet),
    /// The peer's TLS handshake is made, or waits for its turn.
    AwaitTls(AwaitTls),
    /// The peer owes an MPA Request.
    AwaitRequest(AwaitRequest),
    /// The Request waits to be reported.
    Queued(Queued),
    /// The consumer owes an answer.
    Requested(Requested),
    /// The Request is a call of a queue pair by name.
    Parked(Parked),
    /// The queue pair owns the stream.
    Streaming(Streaming),
    /// An orderly close has begun; the queue pair sends what it still has.
    Draining(Draining),
    /// Our FIN is sent, or queued behind the last data; the peer's has not come.
    FinSent(FinSent),
    /// The consumer no longer uses the connection; the peer may still receive the last data.
    Linger(Linger),
    /// The connection is over.
    Closed,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Machine {
    stage: Stage,
    deadline: i64,
}

/// What a transition sees, and the time that it sets.
struct Turn<'a> {
    seen: &'a Seen,
    deadline: i64,
}

/// A transition: the next stage, and the rule; none if the input means nothing to the stage.
type Next = (Stage, Option<&'static Rule>);

impl Machine {
    /// A connection of an attempt that waits for its turn to make a TLS handshake.
    pub fn await_turn(plan: Plan, seen: &Seen) -> Self {
        let mut turn = Turn::of(seen);
        let stage = AwaitTurn::begin(plan, &mut turn);
        turn.over(stage)
    }

    /// A connection of an attempt that TCP is about to connect.
    pub fn connecting(plan: Plan, seen: &Seen) -> Self {
        let mut turn = Turn::of(seen);
        let stage = Connecting::begin(plan, &mut turn);
        turn.over(stage)
    }

    /// The plan of an attempt that goes on with another connection.
    pub fn into_plan(self) -> Option<Plan> {
        match self.stage {
            Stage::Retry(retry) => Some(retry.plan),
            _ => None,
        }
    }

    /// A connection that a listener has accepted, whose peer may begin with TLS or with MPA.
    /// `silence` is how long the peer may be silent behind the Reply before this end sends, in
    /// milliseconds; for ever, if it is 0.
    pub fn await_octet(silence: u32, seen: &Seen) -> Self {
        let mut turn = Turn::of(seen);
        let stage = AwaitOctet::begin(silence, &mut turn);
        turn.over(stage)
    }

    /// The same, if it is MPA with which the peer begins.
    pub fn await_request(silence: u32, seen: &Seen) -> Self {
        let mut turn = Turn::of(seen);
        let stage = AwaitRequest::begin(silence, &mut turn);
        turn.over(stage)
    }

    /// Takes an input, and goes to the next stage. Returns the rule by which it does, if the input
    /// means anything to it.
    pub fn handle(&mut self, input: Input, seen: &Seen) -> Option<&'static Rule> {
        let mut turn = Turn {
            seen,
            deadline: self.deadline,
        };
        if input == Input::Timeout {
            if self.deadline.saturating_sub(seen.now) > timeout::TICK {
                return None;
            }
            turn.no_wait();
        }
        let (stage, rule) = match replace(&mut self.stage, Stage::Closed) {
            Stage::AwaitTurn(stage) => stage.handle(input, &mut turn),
            Stage::Connecting(stage) => stage.handle(input, &mut turn),
            Stage::Backoff(stage) => stage.handle(input, &mut turn),
            Stage::Securing(stage) => stage.handle(input, &mut turn),
            Stage::AwaitReply(stage) => stage.handle(input, &mut turn),
            Stage::Retry(stage) => (Stage::Retry(stage), None),
            Stage::AwaitOctet(stage) => stage.handle(input, &mut turn),
            Stage::AwaitTls(stage) => stage.handle(input, &mut turn),
            Stage::AwaitRequest(stage) => stage.handle(input, &mut turn),
            Stage::Queued(stage) => stage.handle(input, &mut turn),
            Stage::Requested(stage) => stage.handle(input, &mut turn),
            Stage::Parked(stage) => stage.handle(input, &mut turn),
            Stage::Streaming(stage) => stage.handle(input, &mut turn),
            Stage::Draining(stage) => stage.handle(input, &mut turn),
            Stage::FinSent(stage) => stage.handle(input, &mut turn),
            Stage::Linger(stage) => stage.handle(input, &mut turn),
            Stage::Closed => (Stage::Closed, None),
        };
        *self = turn.over(stage);
        rule
    }

    /// The [`Seen::now`] at which the timer is to run out, if there is any. It may be
    /// [`timeout::TICK`] early.
    pub fn deadline(&self) -> Option<i64> {
        Some(self.deadline).filter(|deadline| *deadline != i64::MAX)
    }

    /// The stage.
    pub fn stage(&self) -> StageName {
        match self.stage {
            Stage::AwaitTurn(_) => StageName::AwaitTurn,
            Stage::Connecting(_) => StageName::Connecting,
            Stage::Backoff(_) => StageName::Backoff,
            Stage::Securing(_) => StageName::Securing,
            Stage::AwaitReply(_) => StageName::AwaitReply,
            Stage::Retry(_) => StageName::Retry,
            Stage::AwaitOctet(_) => StageName::AwaitOctet,
            Stage::AwaitTls(_) => StageName::AwaitTls,
            Stage::AwaitRequest(_) => StageName::AwaitRequest,
            Stage::Queued(_) => StageName::Queued,
            Stage::Requested(_) => StageName::Requested,
            Stage::Parked(_) => StageName::Parked,
            Stage::Streaming(_) => StageName::Streaming,
            Stage::Draining(_) => StageName::Draining,
            Stage::FinSent(_) => StageName::FinSent,
            Stage::Linger(_) => StageName::Linger,
            Stage::Closed => StageName::Closed,
        }
    }
}

impl<'a> Turn<'a> {
    /// The turn of a new connection.
    fn of(seen: &'a Seen) -> Self {
        let deadline = i64::MAX;
        Self { seen, deadline }
    }

    /// The connection after this transition.
    fn over(self, stage: Stage) -> Machine {
        let deadline = match stage {
            Stage::Retry(_) | Stage::Closed => i64::MAX,
            _ => self.deadline,
        };
        Machine { stage, deadline }
    }

    /// Sets the time-out of the stage to `ms` milliseconds from now, in place of an earlier one.
    fn wait(&mut self, ms: u32) {
        self.deadline = self.seen.now.saturating_add(i64::from(ms));
    }

    /// As [`Turn::wait`], for an orderly close. While the device is being removed the time is at
    /// most [`timeout::LEAVE`], as the removal waits for one consumer after the other.
    fn wait_for_close(&mut self, ms: u32) {
        self.wait(if self.seen.leaving {
            ms.min(timeout::LEAVE)
        } else {
            ms
        });
    }

    /// Sets no time-out for the stage.
    fn no_wait(&mut self) {
        self.deadline = i64::MAX;
    }
}
