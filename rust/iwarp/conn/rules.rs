// SPDX-License-Identifier: GPL-2.0

//! The table of transitions.
//!
//! A stage's code decides which rule holds. What is done then, and which stage is next, the rule
//! says.

use super::{Action, Lost, Report, SetUp, Status};
use Action::*;
use SetUp::*;

/// The name of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageName {
    /// Before the first stage.
    New,
    /// See [`super::AwaitTlsSlot`].
    AwaitTlsSlot,
    /// See [`super::Connecting`].
    Connecting,
    /// See [`super::Backoff`].
    Backoff,
    /// See [`super::Securing`].
    Securing,
    /// See [`super::AwaitReply`].
    AwaitReply,
    /// The connection is over, and the attempt goes on with another one.
    Retry,
    /// See [`super::AwaitOctet`].
    AwaitOctet,
    /// See [`super::AwaitTls`].
    AwaitTls,
    /// See [`super::AwaitRequest`].
    AwaitRequest,
    /// See [`super::Queued`].
    Queued,
    /// See [`super::Requested`].
    Requested,
    /// See [`super::Parked`].
    Parked,
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

/// Checks what iwcm and a listener rely on: exactly one `CONNECT_REPLY` where an attempt ends or
/// leads to an established connection; exactly one answer, or withdrawal, of a Request that was
/// reported, and `ESTABLISHED` where one leads to an established connection; exactly one `CLOSE`
/// where that ends; no report behind `CLOSE` or elsewhere. A slot is given back when the setup of a
/// responder is over, and a connection that is over is detached.
const fn check(from: &[StageName], actions: &[Action], to: StageName) {
    let (mut replies, mut closes, mut detached, mut at) = (0, 0, 0, 0);
    let (mut established, mut answers, mut reports, mut slots, mut streams) = (0, 0, 0, 0, 0);
    // A call is no consumer's at iwcm.
    let nobody_asks = from.len() == 1 && matches!(from[0], StageName::Parked);
    while at < actions.len() {
        match actions[at] {
            ReportReply(_) => replies += 1,
            ReportEstablished => established += 1,
            SetUp(ReportRequest) => reports += 1,
            Return(_) | SetUp(Withdraw) => answers += 1,
            ReportClose(_) => closes += 1,
            ReportDisconnect => assert!(closes == 0, "DISCONNECT comes before CLOSE"),
            GiveStream => {
                let told = replies + established == 1;
                assert!(told || nobody_asks, "the report comes first");
                streams += 1;
            }
            FreeSlot => slots += 1,
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
        let owned = from[at].is_owned();
        assert!(
            closes == (owned && ends) as u32,
            "one CLOSE, when an established connection ends"
        );
        let over = ends || matches!(to, StageName::Streaming);
        assert!(
            replies == (from[at].is_initiators() && over) as u32,
            "one CONNECT_REPLY, when an attempt ends"
        );
        let begins = matches!(to, StageName::Streaming) && !owned;
        assert!(
            streams == begins as u32,
            "the queue pair gets the stream once"
        );
        let requested = matches!(from[at], StageName::Requested);
        assert!(
            established == (requested && begins) as u32,
            "one ESTABLISHED, when a Request was accepted"
        );
        assert!(
            answers == (requested && over) as u32,
            "one answer, or withdrawal, of a Request"
        );
        let queued = matches!(from[at], StageName::Queued);
        assert!(
            reports == 0 || queued && !over,
            "a Request is reported in its transition"
        );
        assert!(
            slots == (from[at].is_responders() && over) as u32,
            "the slot is given back"
        );
        at += 1;
    }
}

impl StageName {
    /// Whether an initiator's connection is set up in this stage.
    pub const fn is_initiators(self) -> bool {
        use StageName::*;
        matches!(
            self,
            AwaitTlsSlot | Connecting | Backoff | Securing | AwaitReply
        )
    }

    /// Whether a responder's connection is set up in this stage.
    pub const fn is_responders(self) -> bool {
        use StageName::*;
        matches!(
            self,
            AwaitOctet | AwaitTls | AwaitRequest | Queued | Requested | Parked
        )
    }

    /// Whether a queue pair owns the stream in this stage.
    pub const fn is_owned(self) -> bool {
        matches!(self, Self::Streaming | Self::Draining | Self::FinSent)
    }
}

const LOST: Action = Lose(Lost::Handshake);

rules! {
    // An attempt to connect.
    WAITS_FOR_TURN: New, WaitsForTurn => [] AwaitTlsSlot;
    CONNECTS: New, Connects => [] Connecting;
    TURN_COMES: AwaitTlsSlot, Turn => [SetUp(Connect)] Connecting;
    TURN_LOOK: AwaitTlsSlot, Timeout => [] AwaitTlsSlot;
    CONNECTED: Connecting, Connected => [SetUp(FreePlace), SetUp(SendRequest)] AwaitReply;
    CONNECTED_TO_ITSELF: Connecting, Connected if "the queue pair is its own peer"
        => [SetUp(FreePlace), SetUp(StartQueuePair)] AwaitReply;
    CONNECTED_FOR_TLS: Connecting, Connected if "TLS is wanted"
        => [DetachForTls, SetUp(StartTls)] Securing;
    REFUSED: Connecting, Refused if "for the first, second or third time"
        => [SetUp(FreePlace)] Backoff;
    REFUSED_FOR_GOOD: Connecting, Refused
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Refused))] Closed;
    CONNECTING_LOOK: Connecting, Timeout => [] Connecting;
    BACKOFF_OVER: Backoff, Timeout
        => [Detach, Reset, SetUp(FreePlace), LOST, Again(Status::Refused)] Retry;
    SETUP_ABORTED: AwaitTlsSlot | Connecting | Backoff | AwaitReply, Abort | Flush | Close | Leave
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Aborted))] Closed;
    SETUP_ORPHANED: AwaitTlsSlot | Connecting | Backoff | AwaitReply, Timeout
        if "the process has ended"
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Aborted))] Closed;
    SETUP_LATE: AwaitTlsSlot | Connecting | AwaitReply, Timeout if "no time is left"
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::TimedOut))] Closed;
    SETUP_BROKEN: AwaitTlsSlot | Connecting | AwaitReply, Broken
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::OfSocket))] Closed;

    // The TLS handshake of an initiator.
    TLS_STARTED: Securing, TlsStarted => [] Securing;
    TLS_PENDING: Securing, TryAgain => [] Securing;
    TLS_AGAIN: Securing, Timeout if "the kernel had no room for it" => [SetUp(StartTls)] Securing;
    TLS_LOOK: Securing, Timeout => [] Securing;
    TLS_DONE: Securing, TlsDone => [SetUp(AttachTls)] Securing;
    SECURED: Securing, Secured => [SetUp(FreePlace), SetUp(SendRequest)] AwaitReply;
    TLS_FAILED: Securing, TlsFailed
        => [SetUp(FailTls(Status::OfSocket)), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::OfTls))] Closed;
    TLS_LATE: Securing, Timeout if "no time is left"
        => [SetUp(FailTls(Status::TimedOut)), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::TimedOut))] Closed;
    TLS_ORPHANED: Securing, Timeout if "the process has ended"
        => [SetUp(FailTls(Status::Aborted)), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::Aborted))] Closed;
    TLS_ABORTED: Securing, Abort | Flush | Close | Leave
        => [SetUp(FailTls(Status::Aborted)), Detach, Reset, LOST,
            ReportReply(Report::Failed(Status::Aborted))] Closed;

    // The Request was sent.
    REPLY_LOOK: AwaitReply, Timeout => [] AwaitReply;
    ACCEPTED: AwaitReply, Accepted => [SetUp(StartQueuePair)] AwaitReply;
    STARTED: AwaitReply, Started | StartedWithRtr
        => [ReportReply(Report::Connected), Watch, GiveStream] Streaming;
    // RFC 6581 section 9: terms that this end cannot meet.
    INCOMPATIBLE: AwaitReply, Incompatible => [SetUp(SendTerminate)] AwaitReply;
    CANNOT_START: AwaitReply, CannotStart => [SetUp(SendTerminate)] AwaitReply;
    //= 6581-9.3-1
    TERMINATE_SENT: AwaitReply, TerminateSent
        => [Discard, SendFin, LOST, ReportReply(Report::Answered(Status::Protocol))] Linger;
    TERMINATE_NOT_SENT: AwaitReply, TerminateNotSent
        => [Detach, Reset, LOST, ReportReply(Report::Answered(Status::Protocol))] Closed;
    OLD_FORMAT: AwaitReply, OldFormat if "the Request may be of revision 1"
        => [CountRepeated, Detach, Reset, SetUp(FreePlace), LOST, Again(Status::Refused)] Retry;
    OFFER_REJECTED: AwaitReply, OfferRejected if "the Request may do without the offer"
        => [CountRepeated, Detach, Reset, SetUp(FreePlace), LOST, Again(Status::Refused)] Retry;
    HUNG_UP: AwaitReply, HungUp if "the Request asks for more than it must, and is without TLS"
        => [CountRepeated, Detach, Reset, SetUp(FreePlace), LOST, Again(Status::OfSocket)] Retry;
    HUNG_UP_FOR_GOOD: AwaitReply, HungUp
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::OfSocket))] Closed;
    NOT_ACCEPTED: AwaitReply, HungUp if "within TLS"
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Access))] Closed;
    REJECTED: AwaitReply, Rejected | OfferRejected
        => [Detach, Reset, LOST, ReportReply(Report::Answered(Status::Refused))] Closed;
    //= 5044-7.1.2-6, 5044-7.1.2-7
    BAD_REPLY: AwaitReply, BadReply | OldFormat
        => [Detach, Reset, LOST, ReportReply(Report::Failed(Status::Protocol))] Closed;

    // The peer of a listener.
    ACCEPTS_CONNECTION: New, Accepted => [] AwaitOctet;
    ACCEPTS_CONNECTION_FOR_MPA: New, AcceptedForMpa => [] AwaitRequest;
    MPA_BEGINS: AwaitOctet, MpaBegins => [SetUp(ReadRequest)] AwaitRequest;
    TLS_BEGINS: AwaitOctet, TlsBegins => [LeaveOrder, DetachForTls, SetUp(AwaitPlace)] AwaitTls;
    //= 5044-8-2
    NO_REQUEST: AwaitOctet | AwaitRequest,
        Abort | Broken | Flush | Close | Leave | HungUp | Unlistened | NoTls | BadRequest | Timeout
            | GiveWay
        => [CountDropped, Detach, Reset, FreeSlot] Closed;

    // The TLS handshake of a responder.
    PEER_TLS_TURN: AwaitTls, Turn => [SetUp(StartTls)] AwaitTls;
    PEER_TLS_STARTED: AwaitTls, TlsStarted => [] AwaitTls;
    PEER_TLS_PENDING: AwaitTls, TryAgain => [] AwaitTls;
    PEER_TLS_AGAIN: AwaitTls, Timeout if "the kernel had no room for it"
        => [SetUp(StartTls)] AwaitTls;
    PEER_TLS_LOOK: AwaitTls, Timeout => [] AwaitTls;
    PEER_TLS_DONE: AwaitTls, TlsDone => [SetUp(AttachTls)] AwaitTls;
    PEER_SECURED: AwaitTls, Secured => [SetUp(FreePlace)] AwaitRequest;
    PEER_TLS_FAILED: AwaitTls, TlsFailed
        => [SetUp(FailTls(Status::OfSocket)), CountDropped, Detach, Reset, FreeSlot] Closed;
    PEER_TLS_LATE: AwaitTls, Timeout if "no time is left"
        => [SetUp(FailTls(Status::TimedOut)), CountDropped, Detach, Reset, FreeSlot] Closed;
    PEER_TLS_ABORTED: AwaitTls, Abort | Flush | Close | Leave | Unlistened | GiveWay
        => [SetUp(FailTls(Status::Aborted)), CountDropped, Detach, Reset, FreeSlot] Closed;
    CANNOT_AWAIT_TURN: AwaitTls, Broken => [CountDropped, Detach, Reset, FreeSlot] Closed;

    // The Request has come.
    NOT_ADMITTED: AwaitRequest, NotAdmitted
        => [LeaveOrder, CountDropped, SetUp(SendRejection)] AwaitRequest;
    REQUEST_CAME: AwaitRequest, RequestCame => [SetUp(Queue)] Queued;
    REQUEST_WAITS: Queued, NoTurn => [LookAgain] Queued;
    REQUEST_TURN: Queued, Turn => [SetUp(ReportRequest)] Queued;
    // Only after the report: no other connection depends on the order of the steps that follow.
    REPORTED: Queued, Reported => [LeaveOrder, CountRequest, LookAgain] Requested;
    NOT_REPORTED: Queued, NotReported => [LeaveOrder, CountDropped, SetUp(SendRejection)] Queued;
    REQUEST_WAITS_LONG: Queued, Timeout => [SetUp(MakeRoom)] Queued;
    REQUEST_WAITS_TOO_LONG: Queued, Timeout if "for the third time"
        => [SetUp(MakeRoom), LeaveOrder, CountDropped, SetUp(SendRejection)] Queued;
    REQUEST_LEFT: Queued, Abort | Flush | Close | Leave | HungUp
        => [CountDropped, Detach, Reset, FreeSlot] Closed;
    REFUSAL_SENT: AwaitRequest | Queued | Parked, RejectionSent
        => [FreeSlot, Discard, SendFin] Linger;
    REFUSAL_NOT_SENT: AwaitRequest | Queued | Parked, RejectionNotSent
        => [Detach, Reset, FreeSlot] Closed;

    // The Request is a call of a queue pair by name.
    CALLED: AwaitRequest, Called => [LeaveOrder, SetUp(Admit), LookAgain] Parked;
    CALL_WAITS: Parked, NotExpected => [] Parked;
    CALL_TURN: Parked, Turn => [SetUp(Admit)] Parked;
    CALL_REFUSED: Parked, NotAdmitted | NotAttached => [CountDropped, SetUp(SendRejection)] Parked;
    CALL_WAITS_TOO_LONG: Parked, Timeout => [CountDropped, SetUp(SendRejection)] Parked;
    CALL_ADMITTED: Parked, ReplySentForRtr => [FreeSlot, Watch, GiveStream] Streaming;
    CALL_CANNOT_START: Parked, CannotStart => [Detach, Reset, LOST, FreeSlot] Closed;
    CALL_REPLY_NOT_SENT: Parked, ReplyNotSent
        => [CountAborted, Detach, Reset, Lose(Lost::Call), FreeSlot] Closed;
    CALL_LEFT: Parked,
        Abort | Broken | Flush | Close | Leave | HungUp | Unlistened | GiveWay
        => [CountDropped, Detach, Reset, FreeSlot] Closed;

    // The consumer has the Request.
    PEER_GONE: Requested, HungUp if "it is the first" => [Reset] Requested;
    //= 6581-9.3-1
    WITHDRAWN: Requested, Abort | Flush | Close | Leave | Timeout
        => [SetUp(Withdraw), Detach, Reset, FreeSlot] Closed;
    ANSWERED_IN_VAIN: Requested, Accept | Reject if "the peer has gone"
        => [Detach, Reset, FreeSlot, Return(Status::Reset)] Closed;
    ACCEPTS: Requested, Accept => [SetUp(SetUp::Accept)] Requested;
    ESTABLISHED: Requested, ReplySent | ReplySentForRtr
        => [ReportEstablished, FreeSlot, Return(Status::Ok), Watch, GiveStream] Streaming;
    NOT_ATTACHED: Requested, NotAttached
        => [Detach, Reset, FreeSlot, Return(Status::OfSocket)] Closed;
    CANNOT_ACCEPT: Requested, CannotStart
        => [Detach, Reset, LOST, FreeSlot, Return(Status::OfSocket)] Closed;
    REPLY_NOT_SENT: Requested, ReplyNotSent
        => [CountAborted, Detach, Reset, Lose(Lost::Reset), FreeSlot, Return(Status::OfSocket)]
        Closed;
    REJECTS: Requested, Reject => [CountRejected, SetUp(SendRejection)] Requested;
    REJECTION_SENT: Requested, RejectionSent
        => [FreeSlot, Return(Status::Ok), Discard, SendFin] Linger;
    REJECTION_NOT_SENT: Requested, RejectionNotSent
        => [Detach, Reset, FreeSlot, Return(Status::Ok)] Closed;

    // The stream ends at once, in whichever stage.
    //= 5040-7-2, 5041-3-12
    ABORTED: Streaming | Draining | FinSent, Abort
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::Aborted)] Closed;
    //= 5041-6.2.2-1
    BROKEN: Streaming | Draining | FinSent, Broken
        => [CountAborted, Detach, Reset, Lose(Lost::Reset), ReportClose(Status::OfSocket)] Closed;
    CUT: Streaming | Draining | FinSent, Cut
        => [CountAborted, Detach, Reset, Lose(Lost::Reset), ReportClose(Status::Reset)] Closed;
    PEER_LEAVES: Streaming | Draining | FinSent, PeerGone
        => [CountClosed, Detach, Reset, Lose(Lost::Closed), ReportClose(Status::Ok)] Closed;
    // `Lose` is first: the queue pair hands over what it has not sent of a batch.
    //= 5040-7-2, 5041-3-12
    FLUSHED: Streaming | Draining | FinSent, Flush
        => [CountAborted, Lose(Lost::Aborted), Discard, SendFin, ReportClose(Status::Ok)] Linger;

    // The queue pair owns the stream.
    FAULT: Streaming, Fault => [] Streaming;
    TERMINATE_LATE: Streaming, Timeout if "the Terminate is not sent"
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::TimedOut)] Closed;
    //= 6581-9.3-1
    RTR_LATE: Streaming, Timeout if "the RTR has not come"
        => [CountAborted, Detach, Reset, Lose(Lost::Aborted), ReportClose(Status::TimedOut)] Closed;
    CALL_LOST: Streaming, Broken | PeerGone | Timeout
        if "the peer has called by name, and nothing has come since"
        => [CountAborted, Detach, Reset, Lose(Lost::Call), ReportClose(Status::Reset)] Closed;
    RTR_MISSED: Streaming, Timeout if "nothing has come since our RTR" => [RepeatRtr] Streaming;
    SILENT: Streaming, Timeout if "the peer has not had the Reply for long enough" => [] Streaming;
    SILENT_LONG: Streaming, Timeout if "the peer was silent for long enough"
        => [MayStart] Streaming;
    PEER_CLOSES: Streaming, PeerFin => [ReportDisconnect, Drain] Draining;
    PEER_CLOSES_SILENTLY: Streaming, PeerFin if "the peer was silent for long enough"
        => [ReportDisconnect, MayStart, Drain] Draining;
    CLOSES: Streaming, Close => [Drain] Draining;
    CLOSES_AFTER_SILENCE: Streaming, Close if "the peer was silent for long enough"
        => [MayStart, Drain] Draining;

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
    //= 5040-7-2: the LLP connection MUST be torn down.
    //= 5041-3-12: the LLP Connection MUST be torn down.
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
