// SPDX-License-Identifier: GPL-2.0

//! The life of a connection as a machine without I/O: when it waits, for how long, what it does
//! then, and how it ends.
//!
//! A [`Machine`] is in one stage, a value of one type per stage. Its driver turns what happens to
//! the connection into [`Input`]s, and tells with each of them what it sees of the connection
//! ([`Seen`]). The machine answers with the [`Rule`] that it goes by. The driver executes the
//! rule's [`Action`]s in their order, then sets its timer to [`Machine::deadline`]. An action with
//! a result ([`Action::SendFin`]) is answered by an input.
//!
//! All transitions are in one table, [`RULES`]. Documentation/connection.md shows it. So what iwcm
//! is told, and how often, can be read from the table, and is checked when the crate is compiled.

mod action;
mod draining;
mod first_fpdu;
mod initiator;
mod input;
mod linger;
pub mod names;
mod patience;
mod plan;
mod reply;
mod responder;
mod retry;
pub mod rnr;
mod rules;
mod streaming;
pub mod timeout;
mod transition;

use draining::{Draining, FinSent};
use initiator::{AwaitReply, AwaitTlsSlot, Connecting, Securing};
use linger::Linger;
use responder::{AwaitOctet, AwaitRequest, AwaitTls, Parked, Queued, Requested};
use retry::Backoff;
use streaming::Streaming;
use transition::{Next, Transition};

pub use action::{Action, Lost, Report, SetUp, Status};
pub use first_fpdu::{First, Reply};
pub use input::{Input, Seen};
pub use plan::Plan;
pub use reply::Answer;
pub use rules::{Rule, StageName, RULES};

/// The stages of a connection.
#[derive(Clone, Debug)]
enum Stage {
    /// Others make their TLS handshakes first.
    AwaitTlsSlot(AwaitTlsSlot),
    /// TCP is connecting.
    Connecting(Connecting),
    /// TCP was refused.
    Backoff(Backoff),
    /// The TLS handshake is made.
    Securing(Securing),
    /// The MPA Request was sent.
    AwaitReply(AwaitReply),
    /// The attempt goes on with another connection, by this plan.
    Retry(Plan),
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

impl Stage {
    fn begin(next: Next, transition: &mut Transition<'_>) -> Self {
        match next {
            Next::AwaitTlsSlot(plan) => Self::AwaitTlsSlot(AwaitTlsSlot::begin(plan, transition)),
            Next::Connecting(plan) => Self::Connecting(Connecting::begin(plan, transition)),
            Next::Backoff(plan) => Self::Backoff(Backoff::begin(plan)),
            Next::Securing(plan) => Self::Securing(Securing::begin(plan, transition)),
            Next::AwaitReply(plan) => Self::AwaitReply(AwaitReply::begin(plan, transition)),
            Next::Retry(plan) => Self::Retry(plan),
            Next::AwaitOctet => Self::AwaitOctet(AwaitOctet::begin(transition)),
            Next::AwaitTls => Self::AwaitTls(AwaitTls::begin(transition)),
            Next::AwaitRequest { anew } => {
                Self::AwaitRequest(AwaitRequest::begin(anew, transition))
            }
            Next::Queued => Self::Queued(Queued::begin(transition)),
            Next::Requested => Self::Requested(Requested::begin(transition)),
            Next::Parked => Self::Parked(Parked::begin(transition)),
            Next::Streaming(first) => Self::Streaming(Streaming::begin(first, transition)),
            Next::Draining {
                peer_done,
                faulted,
                first,
            } => Self::Draining(Draining::begin(peer_done, faulted, first, transition)),
            Next::FinSent => Self::FinSent(FinSent::begin(transition)),
            Next::Linger => Self::Linger(Linger::begin(transition)),
        }
    }
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Machine {
    stage: Stage,
    deadline: i64,
    /// How long the peer may be silent when the stream begins, in milliseconds; for ever, if it is
    /// 0. Then a responder sends, and an initiator repeats its RTR.
    silence: u32,
}

impl Machine {
    /// A connection of an attempt that waits for its turn to make a TLS handshake.
    pub fn await_turn(plan: Plan, seen: &Seen) -> Self {
        Self::begin(plan.rtr_wait, seen, Next::AwaitTlsSlot(plan))
    }

    /// A connection of an attempt that TCP is about to connect.
    pub fn connecting(plan: Plan, seen: &Seen) -> Self {
        Self::begin(plan.rtr_wait, seen, Next::Connecting(plan))
    }

    /// The plan of an attempt that goes on with another connection.
    pub fn into_plan(self) -> Option<Plan> {
        match self.stage {
            Stage::Retry(plan) => Some(plan),
            _ => None,
        }
    }

    /// A connection that a listener has accepted, whose peer may begin with TLS or with MPA.
    /// `silence` is how long the peer may be silent behind the Reply before this end sends, in
    /// milliseconds; for ever, if it is 0.
    pub fn await_octet(silence: u32, seen: &Seen) -> Self {
        Self::begin(silence, seen, Next::AwaitOctet)
    }

    /// The same, if it is MPA with which the peer begins.
    pub fn await_request(silence: u32, seen: &Seen) -> Self {
        Self::begin(silence, seen, Next::AwaitRequest { anew: true })
    }

    fn begin(silence: u32, seen: &Seen, first: Next) -> Self {
        let mut transition = Transition {
            seen,
            deadline: i64::MAX,
            silence,
            next: None,
        };
        let stage = Stage::begin(first, &mut transition);
        Self {
            stage,
            deadline: transition.deadline,
            silence,
        }
    }

    /// Takes an input, and goes to the next stage. Returns the rule by which it does, if the input
    /// means anything to it.
    pub fn handle(&mut self, input: Input, seen: &Seen) -> Option<&'static Rule> {
        let mut transition = Transition {
            seen,
            deadline: self.deadline,
            silence: self.silence,
            next: None,
        };
        if input == Input::Timeout {
            if self.deadline.saturating_sub(seen.now) > timeout::TICK {
                return None;
            }
            transition.no_wait();
        }
        let rule = match &mut self.stage {
            Stage::AwaitTlsSlot(stage) => stage.handle(input, &mut transition),
            Stage::Connecting(stage) => stage.handle(input, &mut transition),
            Stage::Backoff(stage) => stage.handle(input, &mut transition),
            Stage::Securing(stage) => stage.handle(input, &mut transition),
            Stage::AwaitReply(stage) => stage.handle(input, &mut transition),
            Stage::AwaitOctet(stage) => stage.handle(input, &mut transition),
            Stage::AwaitTls(stage) => stage.handle(input, &mut transition),
            Stage::AwaitRequest(stage) => stage.handle(input, &mut transition),
            Stage::Queued(stage) => stage.handle(input, &mut transition),
            Stage::Requested(stage) => stage.handle(input, &mut transition),
            Stage::Parked(stage) => stage.handle(input, &mut transition),
            Stage::Streaming(stage) => stage.handle(input, &mut transition),
            Stage::Draining(stage) => stage.handle(input, &mut transition),
            Stage::FinSent(stage) => stage.handle(input, &mut transition),
            Stage::Linger(stage) => stage.handle(input, &mut transition),
            Stage::Retry(_) | Stage::Closed => None,
        };
        if let Some(next) = transition.next.take() {
            self.stage = Stage::begin(next, &mut transition);
        }
        self.deadline = transition.deadline;
        // A connection that is over has no timer, whatever its stage had set.
        match rule.map(|rule| rule.to) {
            Some(StageName::Closed) => (self.stage, self.deadline) = (Stage::Closed, i64::MAX),
            Some(StageName::Retry) => self.deadline = i64::MAX,
            _ => {}
        }
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
            Stage::AwaitTlsSlot(_) => StageName::AwaitTlsSlot,
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
