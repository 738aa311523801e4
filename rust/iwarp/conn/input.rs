// SPDX-License-Identifier: GPL-2.0

//! What happens to a connection, and what its driver sees of it.

#[cfg(doc)]
use super::{Action, Answer, Linger, SetUp};

/// What a driver sees of a connection when it gives an input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Milliseconds since the connection was made.
    pub now: i64,
    /// Bytes that the peer has acknowledged.
    pub acked: u64,
    /// Milliseconds since the last acknowledgment, which may have been one of those bytes'.
    pub acked_ago: u32,
    /// Bytes that have come from the peer.
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
    /// The peer's FIN has come, behind a whole message, and the queue pair is one that its program
    /// connects: those do not close in order.
    PeerGone,
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
    /// Answer to [`Action::SendFin`] or [`SetUp::StartTls`]: it has to be tried again, and nobody
    /// tells when.
    TryAgain,
    /// It is the turn of the connection: to make its TLS handshake, to have its Request reported,
    /// or to have its call looked at.
    Turn,
    /// Answer to [`SetUp::Queue`]: other Requests come first.
    NoTurn,
    /// TCP has connected.
    Connected,
    /// The peer's TCP has refused the connection.
    Refused,
    /// Answer to [`SetUp::StartTls`]: tlshd makes the handshake.
    TlsStarted,
    /// The TLS handshake has ended well.
    TlsDone,
    /// The TLS handshake has failed, or TLS cannot be used.
    TlsFailed,
    /// Answer to [`SetUp::AttachTls`]: TLS is on.
    Secured,
    /// The peer has ended or broken the connection, in place of its Reply or Request, or while it
    /// waits for the answer to its Request.
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
    /// Answer to [`SetUp::StartQueuePair`]: it has started and owes no RTR.
    Started,
    /// Answer to [`SetUp::StartQueuePair`]: it has started and sends an RTR.
    StartedWithRtr,
    /// Answer to [`SetUp::StartQueuePair`], [`SetUp::Accept`] or [`SetUp::Admit`]: the queue pair
    /// cannot start.
    CannotStart,
    /// Answer to [`SetUp::SendTerminate`]: TCP has it.
    TerminateSent,
    /// Answer to [`SetUp::SendTerminate`]: TCP does not take it.
    TerminateNotSent,
    /// Nobody listens any more.
    Unlistened,
    /// The peer begins with TLS.
    TlsBegins,
    /// The peer begins with MPA.
    MpaBegins,
    /// The peer begins without TLS, which this end requires.
    NoTls,
    /// The peer's Request has come.
    RequestCame,
    /// The peer's Request has come, and is a call of a queue pair by name.
    Called,
    /// The Request is none that a peer may send.
    BadRequest,
    /// The Request has come of a peer that may not connect. Answer to [`SetUp::Admit`]: the call is
    /// for no queue pair here.
    NotAdmitted,
    /// Answer to [`SetUp::Admit`]: no queue pair of that number expects anybody so far.
    NotExpected,
    /// Answer to [`SetUp::ReportRequest`]: the consumer has the Request.
    Reported,
    /// Answer to [`SetUp::ReportRequest`]: iwcm has no room for it, or nobody listens any more.
    NotReported,
    /// The consumer accepts the Request.
    Accept,
    /// The consumer rejects the Request.
    Reject,
    /// Answer to [`SetUp::Accept`] or [`SetUp::Admit`]: there is no such queue pair, or it cannot
    /// have the connection.
    NotAttached,
    /// Answer to [`SetUp::Accept`]: TCP has the Reply. The peer owes no RTR.
    ReplySent,
    /// Answer to [`SetUp::Accept`] or [`SetUp::Admit`]: TCP has the Reply. The peer owes an RTR.
    ReplySentForRtr,
    /// Answer to [`SetUp::Accept`] or [`SetUp::Admit`]: TCP does not take the Reply.
    ReplyNotSent,
    /// Answer to [`SetUp::SendRejection`]: TCP has it, and the connection may linger.
    RejectionSent,
    /// Answer to [`SetUp::SendRejection`]: TCP does not take it, or too many connections linger.
    RejectionNotSent,
    /// The timer has run out. It may have been early, or one that was set before another stage.
    Timeout,
    /// Another connection needs the listener's slot of this one, whose Request has not come.
    GiveWay,
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
        Self::PeerGone,
        Self::Close,
        Self::Leave,
        Self::Drained,
        Self::Room,
        Self::FinSent,
        Self::NoRoom,
        Self::TryAgain,
        Self::Turn,
        Self::NoTurn,
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
        Self::Unlistened,
        Self::TlsBegins,
        Self::MpaBegins,
        Self::NoTls,
        Self::RequestCame,
        Self::Called,
        Self::BadRequest,
        Self::NotAdmitted,
        Self::NotExpected,
        Self::Reported,
        Self::NotReported,
        Self::Accept,
        Self::Reject,
        Self::NotAttached,
        Self::ReplySent,
        Self::ReplySentForRtr,
        Self::ReplyNotSent,
        Self::RejectionSent,
        Self::RejectionNotSent,
        Self::Timeout,
        Self::GiveWay,
    ];
}
