// SPDX-License-Identifier: GPL-2.0

//! The table of transitions.
//!
//! A stage's code decides which rule holds. What is done then, and which stage is next, the rule
//! says.

use super::{Action, Lost, Report, Status};
use Action::*;

/// The name of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageName {
    /// Before the first stage.
    New,
    /// See [`super::AwaitTurn`].
    AwaitTurn,
    /// See [`super::Connecting`].
    Connecting,
    /// See [`super::Backoff`].
    Backoff,
    /// See [`super::Securing`].
    Securing,
    /// See [`super::AwaitReply`].
    AwaitReply,
    /// See [`super::Retry`].
    Retry,
    /// See [`super::Streaming`].
    Streaming,
    /// See [`super::Draining`].
    Draining,
    /// See [`super::FinSent`].
    FinSent,
    /// See [`super::Linger`].
    Linger,
    /// The connection is over.
    Closed,
}

/// A transition.
#[derive(Debug)]
pub struct Rule {
    /// The name of the rule.
    pub name: &'static str,
    /// The stages in which it may hold.
    pub from: &'static [StageName],
    /// The inputs: one of them.
    pub on: &'static [&'static str],
    /// What has to be so besides; empty, if nothing has to.
    pub when: &'static str,
    /// What the driver does, in this order.
    pub actions: &'static [Action],
    /// The next stage.
    pub to: StageName,
}

macro_rules! rules {
    ($($name:ident: $($from:ident)|+ , $($on:ident)|+ $(if $when:literal)?
        => [$($action:expr),*] $to:ident;)*) => {
        $(
            pub(super) static $name: Rule = Rule {
                name: stringify!($name),
                from: &[$(StageName::$from),+],
                on: &[$(stringify!($on)),+],
                when: concat!($($when)?),
                actions: &[$($action),*],
                to: StageName::$to,
            };
        )*

        /// All transitions.
        pub static RULES: &[&Rule] = {
            // Checked when the crate is compiled.
            $(check(
                &[$(StageName::$from),+],
                &[$($action),*],
                StageName::$to,
            );)*
            &[$(&$name),*]
        };
    };
}

/// Checks what iwcm relies on: exactly one `CONNECT_REPLY` where an attempt ends or leads to an
/// established connection, and exactly one `CLOSE` where that ends; no report behind `CLOSE` or
/// elsewhere; and that a connection that is over is detached.
const fn check(from: &[StageName], actions: &[Action], to: StageName) {
    let (mut replies, mut closes, mut detached, mut at) = (0, 0, 0, 0);
    while at < actions.len() {
        match actions[at] {
            ReportReply(_) => replies += 1,
            ReportClose(_) => closes += 1,
            ReportDisconnect => assert!(closes == 0, "DISCONNECT comes before CLOSE"),
            Detach => detached += 1,
            _ => {}
        }
        at += 1;
    }
    let ends = matches!(to, StageName::Closed | StageName::Linger);
    assert!(
        detached == matches!(to, StageName::Closed | StageName::Retry) as u32,
        "a connection is detached at its end"
    );
    let mut at = 0;
    while at < from.len() {
        let established = matches!(
            from[at],
            StageName::Streaming | StageName::Draining | StageName::FinSent
        );
        assert!(
            closes == (established && ends) as u32,
            "one CLOSE, when an established connection ends"
        );
        let attempt = matches!(
            from[at],
            StageName::AwaitTurn
                | StageName::Connecting
                | StageName::Backoff
                | StageName::Securing
                | StageName::AwaitReply
        );
        let over = ends || matches!(to, StageName::Streaming);
        assert!(
            replies == (attempt && over) as u32,
            "one CONNECT_REPLY, when an attempt ends"
        );
        at += 1;
    }
}

const LOST: Action = Lose(Lost::Handshake);

rules! {
    // An attempt to connect.
    WAITS_FOR_TURN: New, WaitsForTurn => [] AwaitTurn;
    CONNECTS: New, Connects => [] Connecting;
    TURN_COMES: AwaitTurn, Turn => [Connect] Connecting;
    TURN_LOOK: AwaitTurn, Timeout => [] AwaitTurn;
    CONNECTED: Connecting, Connected => [FreePlace, SendRequest] AwaitReply;
    CONNECTED_FOR_TLS: Connecting, Connected if "TLS is wanted"
        => [DetachForTls, StartTls] Securing;
    REFUSED: Connecting, Refused if "for the first, second or third time" => [FreePlace] Backoff;
    REFUSED_FOR_GOOD: Connecting, Refused
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Refused))] Closed;
    CONNECTING_LOOK: Connecting, Timeout => [] Connecting;
    BACKOFF_OVER: Backoff, Timeout
        => [Detach, Reset, FreePlace, LOST, Again(Status::Refused)] Retry;
    SETUP_ABORTED: AwaitTurn | Connecting | Backoff | AwaitReply, Abort | Flush | Close | Leave
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Aborted))] Closed;
    SETUP_ORPHANED: AwaitTurn | Connecting | Backoff | AwaitReply, Timeout
        if "the process has ended"
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Aborted))] Closed;
    SETUP_LATE: AwaitTurn | Connecting | AwaitReply, Timeout if "no time is left"
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::TimedOut))] Closed;
    SETUP_BROKEN: AwaitTurn | Connecting | AwaitReply, Broken
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::OfSocket))] Closed;

    // The TLS handshake of an initiator.
    TLS_STARTED: Securing, TlsStarted => [] Securing;
    TLS_PENDING: Securing, TryAgain => [] Securing;
    TLS_AGAIN: Securing, Timeout if "the kernel had no room for it" => [StartTls] Securing;
    TLS_LOOK: Securing, Timeout => [] Securing;
    TLS_DONE: Securing, TlsDone => [AttachTls] Securing;
    SECURED: Securing, Secured => [FreePlace, SendRequest] AwaitReply;
    TLS_FAILED: Securing, TlsFailed
        => [FailTls(Status::OfSocket), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::OfTls))] Closed;
    TLS_LATE: Securing, Timeout if "no time is left"
        => [FailTls(Status::TimedOut), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::TimedOut))] Closed;
    TLS_ORPHANED: Securing, Timeout if "the process has ended"
        => [FailTls(Status::Aborted), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::Aborted))] Closed;
    TLS_ABORTED: Securing, Abort | Flush | Close | Leave
        => [FailTls(Status::Aborted), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::Aborted))] Closed;

    // The Request was sent.
    REPLY_LOOK: AwaitReply, Timeout => [] AwaitReply;
    ACCEPTED: AwaitReply, Accepted => [StartQueuePair] AwaitReply;
    STARTED: AwaitReply, Started | StartedWithRtr
        => [ReportReply(Report::Connected), Watch, GiveStream] Streaming;
    // RFC 6581 section 9: terms that this end cannot meet.
    INCOMPATIBLE: AwaitReply, Incompatible => [SendTerminate] AwaitReply;
    CANNOT_START: AwaitReply, CannotStart => [SendTerminate] AwaitReply;
    TERMINATE_SENT: AwaitReply, TerminateSent
        => [Discard, SendFin, LOST, ReportReply(Report::Answered(Status::Protocol))] Linger;
    TERMINATE_NOT_SENT: AwaitReply, TerminateNotSent
        => [Detach, Reset, LOST, ReportReply(Report::Answered(Status::Protocol))] Closed;
    OLD_FORMAT: AwaitReply, OldFormat if "the Request was of revision 2"
        => [CountRepeated, Detach, Reset, FreePlace, LOST, Again(Status::Refused)] Retry;
    OFFER_REJECTED: AwaitReply, OfferRejected if "the Request has the offer"
        => [CountRepeated, Detach, Reset, FreePlace, LOST, Again(Status::Refused)] Retry;
    HUNG_UP: AwaitReply, HungUp if "the Request was of revision 2, and without TLS"
        => [CountRepeated, Detach, Reset, FreePlace, LOST, Again(Status::OfSocket)] Retry;
    HUNG_UP_FOR_GOOD: AwaitReply, HungUp
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::OfSocket))] Closed;
    NOT_ACCEPTED: AwaitReply, HungUp if "within TLS"
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Access))] Closed;
    REJECTED: AwaitReply, Rejected | OfferRejected
        => [Detach, Reset, LOST, ReportReply(Report::Answered(Status::Refused))] Closed;
    BAD_REPLY: AwaitReply, BadReply | OldFormat
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Protocol))] Closed;

    // A responder's setup is over, or there is none.
    ESTABLISHED: New, Established => [Watch, GiveStream] Streaming;
    LAST_WORDS: New, LastWords => [Discard, SendFin] Linger;

    // The stream ends at once, in whichever stage.
    ABORTED: Streaming | Draining | FinSent, Abort
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::Aborted)] Closed;
    BROKEN: Streaming | Draining | FinSent, Broken
        => [CountAborted, Detach, Reset, Lose(Lost::Reset), ReportClose(Status::OfSocket)] Closed;
    CUT: Streaming | Draining | FinSent, Cut
        => [CountAborted, Detach, Reset, Lose(Lost::Reset), ReportClose(Status::Reset)] Closed;
    // `Lose` is first: the queue pair hands over what it has not sent of a batch.
    FLUSHED: Streaming | Draining | FinSent, Flush
        => [CountAborted, Lose(Lost::Aborted), Discard, SendFin, ReportClose(Status::Ok)] Linger;

    // The queue pair owns the stream.
    FAULT: Streaming, Fault => [] Streaming;
    TERMINATE_LATE: Streaming, Timeout if "the Terminate is not sent"
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::TimedOut)] Closed;
    RTR_LATE: Streaming, Timeout if "the RTR has not come"
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::TimedOut)] Closed;
    RTR_MISSED: Streaming, Timeout if "nothing has come since our RTR" => [RepeatRtr] Streaming;
    SILENT: Streaming, Timeout if "the peer has not had the Reply for long enough" => [] Streaming;
    SILENT_LONG: Streaming, Timeout if "the peer was silent for long enough"
        => [MayStart] Streaming;
    PEER_CLOSES: Streaming, PeerFin => [ReportDisconnect, Drain] Draining;
    PEER_CLOSES_SILENTLY: Streaming, PeerFin if "the peer was silent for long enough"
        => [ReportDisconnect, Drain, MayStart] Draining;
    CLOSES: Streaming, Close => [Drain] Draining;
    CLOSES_AFTER_SILENCE: Streaming, Close if "the peer was silent for long enough"
        => [Drain, MayStart] Draining;

    // An orderly close has begun.
    FAULT_OF_CLOSE: Draining, Fault => [] Draining;
    // The queue pair need not wait for answers any more.
    PEER_CLOSES_TOO: Draining, PeerFin if "it is the first" => [ReportDisconnect, Drain] Draining;
    LEAVES: Draining, Leave => [] Draining;
    LEAVES_WITH_FIN: Draining, Leave if "the FIN waits for room" => [SendFin] Draining;
    CLOSE_WAITS: Draining, Timeout if "the peer has not had the Reply for long enough"
        => [] Draining;
    CLOSE_MAY_START: Draining, Timeout if "the peer was silent for long enough"
        => [MayStart] Draining;
    CLOSE_STARTS: Draining, Timeout if "the queue pair may send meanwhile" => [] Draining;
    DRAINING_SLOW: Draining, Timeout if "the peer has acknowledged something" => [] Draining;
    FIN_AGAIN: Draining, Timeout if "the FIN waits for room" => [SendFin] Draining;
    DRAINING_LATE: Draining, Timeout if "the peer has acknowledged nothing, or a Terminate waits"
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::TimedOut)] Closed;
    DRAINED: Draining, Drained => [SendFin] Draining;
    DRAINED_AFTER_FAULT: Draining, Drained if "a Terminate is to follow" => [] Draining;
    FIN_WAITS: Draining, TryAgain | NoRoom => [] Draining;
    FIN_IS_FIRST: Draining, FinSent if "the peer's FIN has not come" => [] FinSent;
    FIN_IS_LAST: Draining, FinSent if "the peer's FIN has come"
        => [CountClosed, Detach, Lose(Lost::Closed), ReportClose(Status::Ok)] Closed;

    // Our FIN is with TCP.
    BOTH_FINS: FinSent, PeerFin
        => [ReportDisconnect, CountClosed, Detach, Lose(Lost::Closed), ReportClose(Status::Ok)]
        Closed;
    LEAVES_AFTER_FIN: FinSent, Leave => [] FinSent;
    PEER_SENDS: FinSent, Timeout if "the peer has sent something" => [] FinSent;
    FIN_LATE: FinSent, Timeout if "the peer has sent nothing, or the device goes"
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::TimedOut)] Closed;

    // Nobody uses the connection any more.
    LINGER_ENDS: Linger, PeerFin if "our FIN is sent" => [Detach] Closed;
    LINGER_PEER_CLOSES: Linger, PeerFin if "our FIN is not sent" => [SendFin] Linger;
    LINGER_ENDS_BY_FIN: Linger, FinSent if "the peer's FIN has come" => [Detach] Closed;
    LINGER_FIN: Linger, FinSent if "the peer's FIN has not come" => [] Linger;
    LINGER_NO_ROOM: Linger, NoRoom => [] Linger;
    LINGER_TRIES: Linger, TryAgain => [] Linger;
    LINGER_ROOM: Linger, Room if "our FIN is not sent" => [SendFin] Linger;
    LINGER_ABORTED: Linger, Abort => [Detach, Reset] Closed;
    LINGER_BROKEN: Linger, Broken => [Detach, Reset] Closed;
    LINGER_AGAIN: Linger, Timeout if "our FIN is not sent" => [SendFin] Linger;
    LINGER_SLOW: Linger, Timeout if "the peer has acknowledged something" => [] Linger;
    LINGER_LATE: Linger, Timeout if "the peer has acknowledged nothing, or has had all extensions"
        => [Detach, Reset] Closed;
}
