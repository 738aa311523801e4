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
//! So far the machine is that of initiators, and of all from [`Streaming`] on. A responder's setup
//! is still the driver's.

mod draining;
mod first;
mod initiator;
mod linger;
mod patience;
mod reply;
mod rules;
mod streaming;
pub mod timeout;

use core::mem::replace;
use patience::Patience;

pub use draining::{Draining, FinSent};
pub use first::{First, Reply};
pub use initiator::{AwaitReply, AwaitTurn, Backoff, Connecting, Plan, Retry, Securing};
pub use linger::Linger;
pub use reply::Answer;
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
    /// Answer to [`Action::SendFin`] or [`Action::StartTls`]: it has to be tried again, and nobody
    /// tells when.
    TryAgain,
    /// It is the turn of an attempt to make its TLS handshake.
    Turn,
    /// TCP has connected.
    Connected,
    /// The peer's TCP has refused the connection.
    Refused,
    /// Answer to [`Action::StartTls`]: tlshd makes the handshake.
    TlsStarted,
    /// The TLS handshake has ended well.
    TlsDone,
    /// The TLS handshake has failed, or TLS cannot be used.
    TlsFailed,
    /// Answer to [`Action::AttachTls`]: TLS is on.
    Secured,
    /// The peer has ended or broken the connection in place of its Reply.
    HungUp,
    /// The Reply accepts ([`Answer::Accepts`]).
    Accepted,
    /// The Reply rejects ([`Answer::Rejects`]).
    Rejected,
    /// The Reply rejects, and may mean an offer ([`Answer::RejectsTheOffer`]).
    OfferRejected,
    /// The Reply accepts in the format of revision 1 ([`Answer::OldFormat`]).
    OldFormat,
    /// The Reply accepts on terms that this end cannot meet ([`Answer::Incompatible`]).
    Incompatible,
    /// The Reply is none that a peer may send.
    BadReply,
    /// Answer to [`Action::StartQueuePair`]: it has started and owes no RTR.
    Started,
    /// Answer to [`Action::StartQueuePair`]: it has started and sends an RTR.
    StartedWithRtr,
    /// Answer to [`Action::StartQueuePair`]: it cannot start.
    CannotStart,
    /// Answer to [`Action::SendTerminate`]: TCP has it.
    TerminateSent,
    /// Answer to [`Action::SendTerminate`]: TCP does not take it.
    TerminateNotSent,
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
        Self::Turn,
        Self::Connected,
        Self::Refused,
        Self::TlsStarted,
        Self::TlsDone,
        Self::TlsFailed,
        Self::Secured,
        Self::HungUp,
        Self::Accepted,
        Self::Rejected,
        Self::OfferRejected,
        Self::OldFormat,
        Self::Incompatible,
        Self::BadReply,
        Self::Started,
        Self::StartedWithRtr,
        Self::CannotStart,
        Self::TerminateSent,
        Self::TerminateNotSent,
        Self::Timeout,
    ];
}

/// What a driver does for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Has TCP connect. To be answered by [`Input::Broken`] if it cannot.
    Connect,
    /// Another attempt may make its TLS handshake.
    FreePlace,
    /// Detaches the callbacks: tlshd waits for data by the socket's own.
    DetachForTls,
    /// Asks tlshd for a handshake. To be answered by [`Input::TlsStarted`], [`Input::TryAgain`] or
    /// [`Input::TlsFailed`].
    StartTls,
    /// Goes on over TLS, and attaches the callbacks again. To be answered by [`Input::Secured`] or
    /// [`Input::TlsFailed`].
    AttachTls,
    /// Ends the handshake if it has not ended, counts the failure, and logs it, unless this end
    /// gives up. [`Status::OfSocket`] stands for the handshake's error.
    FailTls(Status),
    /// Sends the MPA Request. To be answered by [`Input::HungUp`] if a peer within TLS has gone,
    /// and by [`Input::Broken`] if it cannot be sent otherwise.
    SendRequest,
    /// Starts the queue pair on the terms that were agreed on. To be answered by
    /// [`Input::Started`], [`Input::StartedWithRtr`] or [`Input::CannotStart`].
    StartQueuePair,
    /// Sends a Terminate as the only FPDU. To be answered by [`Input::TerminateSent`] or
    /// [`Input::TerminateNotSent`].
    SendTerminate,
    /// Counts an attempt that goes on with another connection, which asks for less.
    CountRepeated,
    /// Begins another connection for the attempt, with the plan of [`Machine::into_plan`]. If it
    /// cannot be begun, the consumer gets this error.
    Again(Status),
    /// Reports `CONNECT_REPLY` to iwcm, and counts a failure.
    ReportReply(Report),
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

/// What a `CONNECT_REPLY` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// There is a connection, on the terms that were agreed on.
    Connected,
    /// There is none.
    Failed(Status),
    /// There is none. What the peer has said in its Reply is for the consumer.
    Answered(Status),
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
    /// `ECONNREFUSED`.
    Refused,
    /// `EPROTO`.
    Protocol,
    /// `EACCES`.
    Access,
    /// The error of a TLS handshake: `EACCES`, unless it has ended by a time-out or was given up.
    OfTls,
    /// The error with which TCP has ended the connection, or an action has failed.
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
    /// The process that connects has ended.
    pub orphaned: bool,
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
            Stage::AwaitTurn(stage) => stage.handle(input, &mut turn),
            Stage::Connecting(stage) => stage.handle(input, &mut turn),
            Stage::Backoff(stage) => stage.handle(input, &mut turn),
            Stage::Securing(stage) => stage.handle(input, &mut turn),
            Stage::AwaitReply(stage) => stage.handle(input, &mut turn),
            Stage::Retry(stage) => (Stage::Retry(stage), None),
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
