// SPDX-License-Identifier: GPL-2.0

//! The table of transitions.
//!
//! A stage's code decides which rule holds. What is done then, and which stage is next, the rule
//! says.

use super::{Action, Lost, Status};
use Action::*;

/// The name of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageName {
    /// Before the first stage.
    New,
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

/// Checks what iwcm relies on: exactly one `CLOSE` where an established connection ends, and no
/// other report behind it or elsewhere; and that a connection that is over is detached.
const fn check(from: &[StageName], actions: &[Action], to: StageName) {
    let (mut closes, mut detached, mut at) = (0, 0, 0);
    while at < actions.len() {
        match actions[at] {
            ReportClose(_) => closes += 1,
            ReportDisconnect => assert!(closes == 0, "DISCONNECT comes before CLOSE"),
            Detach => detached += 1,
            _ => {}
        }
        at += 1;
    }
    let ends = matches!(to, StageName::Closed | StageName::Linger);
    assert!(
        detached == matches!(to, StageName::Closed) as u32,
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
        at += 1;
    }
}

rules! {
    // Setup is over.
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
