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
//! So far the machine is that of the stages from [`Streaming`] on: a queue pair owns the stream, or
//! the connection ends.

mod draining;
mod first;
mod linger;
mod rules;
mod streaming;
pub mod timeout;

use core::mem::replace;

pub use draining::{Draining, FinSent};
pub use first::{First, Reply};
pub use linger::Linger;
pub use rules::{Rule, StageName, RULES};
pub use streaming::Streaming;

/// Something that happens to a connection.
///
/// Inputs that come at the same time are given to the machine in the order of this list, with the
/// exception that [`Linger`] gets [`Input::PeerFin`] first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// This end gives the connection up.
    Abort,
    /// TCP has ended the connection: by the peer's reset, or as the peer did not answer.
    Broken,
    /// The peer's FIN has come where it cuts something short.
    Cut,
    /// The queue pair goes. What TCP has of it is still to be delivered.
    Flush,
    /// The queue pair has found a fault, and is about to send a Terminate and to close.
    Fault,
    /// The peer's FIN has come, behind a whole message.
    PeerFin,
    /// The queue pair closes in order: it still sends what is posted.
    Close,
    /// The device is about to be removed.
    Leave,
    /// The queue pair has handed to TCP all that it had.
    Drained,
    /// The socket may have room again.
    Room,
    /// Answer to [`Action::SendFin`]: TCP has all, and the FIN behind it.
    FinSent,
    /// Answer to [`Action::SendFin`]: TCP has no room. [`Input::Room`] follows when it has.
    NoRoom,
    /// Answer to [`Action::SendFin`]: it has to be tried again, and nobody tells when.
    TryAgain,
    /// The timer has run out. It may have been early, or one that was set before another stage.
    Timeout,
}

impl Input {
    /// All inputs.
    pub const ALL: &'static [Self] = &[
        Self::Abort,
        Self::Broken,
        Self::Cut,
        Self::Flush,
        Self::Fault,
        Self::PeerFin,
        Self::Close,
        Self::Leave,
        Self::Drained,
        Self::Room,
        Self::FinSent,
        Self::NoRoom,
        Self::TryAgain,
        Self::Timeout,
    ];
}

/// What a driver does for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Has TCP check that the peer is there, while the connection is established.
    Watch,
    /// Gives the stream to the queue pair, which receives what has come.
    GiveStream,
    /// Tells the queue pair to send what it still has, and to say when that is done
    /// ([`Input::Drained`]).
    Drain,
    /// Tells the queue pair, a responder's, that it may send although the peer has sent nothing.
    MayStart,
    /// Has the queue pair, an initiator's, send an RTR once more.
    RepeatRtr,
    /// Takes the stream from its receiver: data that come are thrown away from now on.
    Discard,
    /// Sends what a queue pair that is gone has left, and the FIN behind it. To be answered by
    /// [`Input::FinSent`], [`Input::NoRoom`], [`Input::TryAgain`] or [`Input::Broken`], after the
    /// actions that follow.
    SendFin,
    /// Forgets the connection: no callback and no timer comes any more.
    Detach,
    /// Resets the TCP connection, unless TCP has ended it.
    Reset,
    /// Takes the connection from the queue pair, whose requests complete.
    Lose(Lost),
    /// Counts a connection that has ended in order.
    CountClosed,
    /// Counts a connection that has ended otherwise.
    CountAborted,
    /// Reports `DISCONNECT` to iwcm.
    ReportDisconnect,
    /// Reports `CLOSE` to iwcm. No event follows.
    ReportClose(Status),
}

/// How a queue pair lost its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Setup failed, so there never was one.
    Handshake,
    /// Both ends closed it.
    Closed,
    /// The peer or the network ended the connection.
    Reset,
    /// This end gave up the connection.
    Aborted,
}

/// The status of a report to iwcm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No error.
    Ok,
    /// `ECONNABORTED`.
    Aborted,
    /// `ECONNRESET`.
    Reset,
    /// `ETIMEDOUT`.
    TimedOut,
    /// The error with which TCP has ended the connection.
    OfSocket,
}

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
}

/// The stages of a connection.
#[derive(Clone, Debug)]
enum Stage {
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
    /// A connection whose queue pair gets the stream, with the rule of its first actions.
    /// `rtr_wait` is how long an initiator whose RTR the peer may have missed waits before it
    /// repeats it, in milliseconds; never, if it is 0.
    pub fn streaming(first: First, rtr_wait: u32, seen: &Seen) -> (Self, &'static Rule) {
        let mut turn = Turn::of(seen);
        let (stage, rule) = Streaming::begin(first, rtr_wait, &mut turn);
        (turn.over(stage), rule)
    }

    /// A connection that has no consumer, and last words for the peer, with the rule of its first
    /// actions.
    pub fn linger(seen: &Seen) -> (Self, &'static Rule) {
        let mut turn = Turn::of(seen);
        let stage = Stage::Linger(Linger::begin(&mut turn));
        (turn.over(stage), &rules::LAST_WORDS)
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
            Stage::Closed => i64::MAX,
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
        self.wait(match self.seen.leaving {
            true => ms.min(timeout::LEAVE),
            false => ms,
        });
    }

    /// Sets no time-out for the stage.
    fn no_wait(&mut self) {
        self.deadline = i64::MAX;
    }
}
