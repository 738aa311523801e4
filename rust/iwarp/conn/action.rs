// SPDX-License-Identifier: GPL-2.0

//! What is done for a connection.

#[cfg(doc)]
use super::{Input, Machine};

/// What a driver does for the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Does something that only setup needs.
    SetUp(SetUp),
    /// Detaches the callbacks: tlshd waits for data by the socket's own.
    DetachForTls,
    /// From now on the steps of other connections do not wait for those of this one.
    LeaveOrder,
    /// Looks whether the peer has gone, as no event tells of a FIN right behind a Request.
    LookAgain,
    /// Counts an attempt that goes on with another connection, which asks for less.
    CountRepeated,
    /// Counts a Request that was reported.
    CountRequest,
    /// Counts a Request that the consumer rejects.
    CountRejected,
    /// Counts a connection whose Request has not come, or was not reported.
    CountDropped,
    /// Begins another connection for the attempt, with the plan of [`Machine::into_plan`]. If it
    /// cannot be begun, the consumer gets this error.
    Again(Status),
    /// Reports `CONNECT_REPLY` to iwcm, and counts a failure.
    ReportReply(Report),
    /// Reports `ESTABLISHED` to iwcm.
    ReportEstablished,
    /// Gives back the listener's slot, and drops all that only setup needs.
    FreeSlot,
    /// Tells the consumer that accepts or rejects what has come of it.
    Return(Status),
    /// Has TCP check that the peer is there, while the connection is established.
    Watch,
    /// Gives the stream to the queue pair, which receives what has come.
    GiveStream,
    /// Tells the queue pair to send what it still has, and to say when that is done
    /// ([`Input::Drained`]): at once, after the actions that follow, or later.
    Drain,
    /// Tells the queue pair, a responder's, that it may send although the peer has sent nothing. It
    /// comes before [`Self::Drain`], which may find nothing left to do for one that may not send.
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
    /// Takes the connection from the queue pair, whose requests complete. With [`Lost::Call`] none
    /// does: it expects its peer again.
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

/// What a driver does for a connection that is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetUp {
    /// Another connection may make its TLS handshake.
    FreePlace,
    /// Asks tlshd for a handshake. To be answered by [`Input::TlsStarted`], [`Input::TryAgain`] or
    /// [`Input::TlsFailed`].
    StartTls,
    /// Goes on over TLS, and attaches the callbacks again. To be answered by [`Input::Secured`] or
    /// [`Input::TlsFailed`].
    AttachTls,
    /// Ends the handshake if it has not ended, counts the failure, and logs it, unless this end
    /// gives up. [`Status::OfSocket`] stands for the handshake's error.
    FailTls(Status),

    /// Initiator: has TCP connect. To be answered by [`Input::Broken`] if it cannot.
    Connect,
    /// Initiator: sends the MPA Request. To be answered by [`Input::HungUp`] if a peer within TLS
    /// has gone, and by [`Input::Broken`] if it cannot be sent otherwise.
    SendRequest,
    /// Initiator: starts the queue pair on the terms that were agreed on. To be answered by
    /// [`Input::Started`], [`Input::StartedWithRtr`] or [`Input::CannotStart`].
    StartQueuePair,
    /// Initiator: sends a Terminate as the only FPDU. To be answered by [`Input::TerminateSent`] or
    /// [`Input::TerminateNotSent`].
    SendTerminate,

    /// Responder: has the connection wait for its turn to make a TLS handshake. To be answered by
    /// [`Input::Turn`] if that has come, and by [`Input::Broken`] if it cannot wait.
    AwaitPlace,
    /// Responder: reads what has come of the Request. To be answered by what that is, if anything
    /// follows from it.
    ReadRequest,
    /// Responder: has the Request wait to be reported. To be answered by [`Input::Turn`] or
    /// [`Input::NoTurn`].
    Queue,
    /// Responder: makes room for as many Requests as the consumer's backlog again, if the consumer
    /// has answered none since this one waits, or since this was done for it.
    MakeRoom,
    /// Responder: reports `CONNECT_REQUEST` to iwcm. To be answered by [`Input::Reported`] or
    /// [`Input::NotReported`].
    ReportRequest,
    /// Responder: tells iwcm that there is no such Request any more.
    Withdraw,
    /// Responder: has the queue pair take the connection, starts it, and sends the Reply, as FPDUs
    /// may follow as soon as the peer has that. To be answered by [`Input::NotAttached`],
    /// [`Input::CannotStart`], [`Input::ReplyNotSent`], [`Input::ReplySent`] or
    /// [`Input::ReplySentForRtr`].
    Accept,
    /// Responder: looks for the queue pair that a call names, and has it take the connection, as
    /// [`SetUp::Accept`] does, if it expects the caller. To be answered by the inputs that answer
    /// that, except [`Input::ReplySent`]; by [`Input::NotExpected`], after which [`Input::Turn`]
    /// comes when a queue pair of the number expects anybody; by [`Input::NotAdmitted`]; or by
    /// [`Input::Broken`] if the call cannot wait.
    Admit,
    /// Responder: rejects the Request by a Reply. To be answered by [`Input::RejectionSent`] or
    /// [`Input::RejectionNotSent`].
    SendRejection,
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
    /// A call was admitted, and its connection has ended before anything has come of it. The caller
    /// may be without the Reply: then it calls again.
    Call,
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
