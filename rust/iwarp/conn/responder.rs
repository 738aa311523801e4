// SPDX-License-Identifier: GPL-2.0

//! The responder: TLS if the peer begins with it, MPA Request, the consumer's answer, MPA Reply
//! (RFC 5044 section 7.1, RFC 6581).
//!
//! A Request is reported to the consumer as soon as that has room for it. The consumer may never
//! answer; then the Request is withdrawn after a while.
//!
//! An accepted Request is reported as `ESTABLISHED` at once, not when the peer's first FPDU
//! arrives: iwcm makes everybody who wants to end the connection wait for that event, and a peer is
//! free to send nothing for as long as it likes.

use super::{rules, timeout, First, Input, Linger, Next, Patience, Reply, Stage, Streaming, Turn};

/// The peer has connected, and its first octet has not come, which tells TLS from MPA.
#[derive(Clone, Debug)]
pub struct AwaitOctet {
    /// How long the peer may be silent behind the Reply.
    silence: u32,
}

/// The TLS handshake is made, or waits for its turn.
#[derive(Clone, Debug)]
pub struct AwaitTls {
    silence: u32,
    patience: Patience,
    handshake: Handshake,
}

/// A handshake until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// Others have their turns first.
    AwaitsTurn,
    /// The turn has come. tlshd is asked for it, and again while the kernel has no room.
    Asks,
    /// tlshd makes it.
    Started,
}

/// The peer has connected and owes a Request.
#[derive(Clone, Debug)]
pub struct AwaitRequest {
    silence: u32,
}

/// The Request has come. It is reported when the consumer has answered others.
#[derive(Clone, Debug)]
pub struct Queued {
    silence: u32,
    /// How often the timer is set again at the most.
    tries: u32,
}

/// The consumer owes an answer.
#[derive(Clone, Debug)]
pub struct Requested {
    silence: u32,
    /// The peer does not wait for the answer any more.
    gone: bool,
}

/// The Request is a call of a queue pair by name ([`super::names`]), which waits until a queue pair
/// of that number expects somebody.
#[derive(Clone, Debug)]
pub struct Parked;

/// Whether an input ends a connection that has not sent its Request, with or without TLS.
fn gives_up(input: Input) -> bool {
    matches!(
        input,
        Input::Abort
            | Input::Flush
            | Input::Close
            | Input::Leave
            | Input::Unlistened
            | Input::GiveWay
    )
}

/// Whether an input says that no Request comes.
fn has_no_request(input: Input) -> bool {
    let fails = matches!(
        input,
        Input::Broken | Input::HungUp | Input::NoTls | Input::BadRequest | Input::Timeout
    );
    fails || gives_up(input)
}

impl AwaitOctet {
    pub(super) fn begin(silence: u32, turn: &mut Turn<'_>) -> Stage {
        turn.wait(timeout::REQUEST);
        Stage::AwaitOctet(Self { silence })
    }

    pub(super) fn handle(self, input: Input, turn: &mut Turn<'_>) -> Next {
        let silence = self.silence;
        match input {
            Input::TlsBegins => (AwaitTls::begin(silence, turn), Some(&rules::TLS_BEGINS)),
            // It has no more time than what is left.
            Input::MpaBegins => {
                let stage = Stage::AwaitRequest(AwaitRequest { silence });
                (stage, Some(&rules::MPA_BEGINS))
            }
            _ if has_no_request(input) => (Stage::Closed, Some(&rules::NO_REQUEST)),
            _ => (Stage::AwaitOctet(self), None),
        }
    }
}

impl AwaitTls {
    fn begin(silence: u32, turn: &mut Turn<'_>) -> Stage {
        Stage::AwaitTls(Self {
            silence,
            patience: Patience::begin(timeout::TLS, turn),
            handshake: Handshake::AwaitsTurn,
        })
    }

    pub(super) fn handle(mut self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            Input::Turn if self.handshake == Handshake::AwaitsTurn => {
                self.handshake = Handshake::Asks;
                &rules::PEER_TLS_TURN
            }
            Input::TlsStarted => {
                self.handshake = Handshake::Started;
                self.patience.go_on_with_tls(false, turn);
                &rules::PEER_TLS_STARTED
            }
            // The kernel has no room for a handshake at the moment.
            Input::TryAgain if self.handshake == Handshake::Asks => {
                self.patience.go_on_with_tls(true, turn);
                &rules::PEER_TLS_PENDING
            }
            Input::TlsDone => &rules::PEER_TLS_DONE,
            Input::Secured => {
                let stage = AwaitRequest::begin(self.silence, turn);
                return (stage, Some(&rules::PEER_SECURED));
            }
            Input::TlsFailed => return (Stage::Closed, Some(&rules::PEER_TLS_FAILED)),
            Input::Broken => return (Stage::Closed, Some(&rules::CANNOT_AWAIT_TURN)),
            Input::Timeout => {
                let asks = self.handshake == Handshake::Asks;
                match self.patience.go_on_with_tls(asks, turn) {
                    false => return (Stage::Closed, Some(&rules::PEER_TLS_LATE)),
                    true if asks => &rules::PEER_TLS_AGAIN,
                    true => &rules::PEER_TLS_LOOK,
                }
            }
            _ if gives_up(input) => return (Stage::Closed, Some(&rules::PEER_TLS_ABORTED)),
            _ => return (Stage::AwaitTls(self), None),
        };
        (Stage::AwaitTls(self), Some(rule))
    }
}

impl AwaitRequest {
    pub(super) fn begin(silence: u32, turn: &mut Turn<'_>) -> Stage {
        turn.wait(timeout::REQUEST);
        Stage::AwaitRequest(Self { silence })
    }

    pub(super) fn handle(self, input: Input, turn: &mut Turn<'_>) -> Next {
        match input {
            Input::RequestCame => {
                let stage = Queued::begin(self.silence, turn);
                (stage, Some(&rules::REQUEST_CAME))
            }
            Input::Called => {
                turn.wait(timeout::PARKED);
                (Stage::Parked(Parked), Some(&rules::CALLED))
            }
            Input::NotAdmitted => (Stage::AwaitRequest(self), Some(&rules::NOT_ADMITTED)),
            Input::RejectionSent => refused(turn),
            Input::RejectionNotSent => (Stage::Closed, Some(&rules::REFUSAL_NOT_SENT)),
            _ if has_no_request(input) => (Stage::Closed, Some(&rules::NO_REQUEST)),
            _ => (Stage::AwaitRequest(self), None),
        }
    }
}

/// This end has refused the Request, of which the consumer does not know.
fn refused(turn: &mut Turn<'_>) -> Next {
    (
        Stage::Linger(Linger::begin(turn)),
        Some(&rules::REFUSAL_SENT),
    )
}

impl Queued {
    fn begin(silence: u32, turn: &mut Turn<'_>) -> Stage {
        turn.wait(timeout::REQUEST);
        Stage::Queued(Self {
            silence,
            tries: const { timeout::REPLY / timeout::REQUEST - 1 },
        })
    }

    pub(super) fn handle(mut self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            Input::NoTurn => &rules::REQUEST_WAITS,
            Input::Turn => &rules::REQUEST_TURN,
            Input::Reported => {
                let stage = Requested::begin(self.silence, turn);
                return (stage, Some(&rules::REPORTED));
            }
            Input::NotReported => &rules::NOT_REPORTED,
            // The peer has given up, if it does as this driver does.
            Input::Timeout if self.tries == 0 => &rules::REQUEST_WAITS_TOO_LONG,
            Input::Timeout => {
                self.tries = self.tries.saturating_sub(1);
                turn.wait(timeout::REQUEST);
                &rules::REQUEST_WAITS_LONG
            }
            Input::RejectionSent => return refused(turn),
            Input::RejectionNotSent => return (Stage::Closed, Some(&rules::REFUSAL_NOT_SENT)),
            Input::Abort | Input::Flush | Input::Close | Input::Leave | Input::HungUp => {
                return (Stage::Closed, Some(&rules::REQUEST_LEFT));
            }
            _ => return (Stage::Queued(self), None),
        };
        (Stage::Queued(self), Some(rule))
    }
}

impl Requested {
    fn begin(silence: u32, turn: &mut Turn<'_>) -> Stage {
        turn.wait(timeout::ANSWER);
        Stage::Requested(Self {
            silence,
            gone: false,
        })
    }

    pub(super) fn handle(mut self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            // The consumer has the event all the same, or it waits for the consumer. So the Request
            // counts until it is answered, in vain: otherwise peers that come and go would fill the
            // room that the RDMA CM has for events, and others would be rejected.
            Input::HungUp if !self.gone => {
                self.gone = true;
                &rules::PEER_GONE
            }
            Input::Accept | Input::Reject if self.gone => &rules::ANSWERED_IN_VAIN,
            Input::Accept => &rules::ACCEPTS,
            Input::Reject => &rules::REJECTS,
            Input::NotAttached => &rules::NOT_ATTACHED,
            Input::CannotStart => &rules::CANNOT_ACCEPT,
            Input::ReplyNotSent => &rules::REPLY_NOT_SENT,
            Input::RejectionNotSent => &rules::REJECTION_NOT_SENT,
            Input::RejectionSent => {
                let stage = Stage::Linger(Linger::begin(turn));
                return (stage, Some(&rules::REJECTION_SENT));
            }
            Input::ReplySent | Input::ReplySentForRtr => {
                let first = match input {
                    Input::ReplySentForRtr => First::Rtr,
                    _ => First::Theirs {
                        wait: self.silence,
                        reply: Reply::Sent(turn.seen.reply_end),
                    },
                };
                turn.no_wait();
                let stage = Streaming::begin(first, 0, turn);
                return (stage, Some(&rules::ESTABLISHED));
            }
            Input::Abort | Input::Flush | Input::Close | Input::Leave | Input::Timeout => {
                &rules::WITHDRAWN
            }
            _ => return (Stage::Requested(self), None),
        };
        match rule.to {
            rules::StageName::Requested => (Stage::Requested(self), Some(rule)),
            _ => (Stage::Closed, Some(rule)),
        }
    }
}

impl Parked {
    pub(super) fn handle(self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            Input::NotExpected => &rules::CALL_WAITS,
            Input::Turn => &rules::CALL_TURN,
            Input::NotAdmitted | Input::NotAttached => &rules::CALL_REFUSED,
            Input::Timeout => &rules::CALL_WAITS_TOO_LONG,
            Input::ReplySentForRtr => {
                turn.no_wait();
                let stage = Streaming::begin(First::Rtr, 0, turn);
                return (stage, Some(&rules::CALL_ADMITTED));
            }
            Input::CannotStart => return (Stage::Closed, Some(&rules::CALL_CANNOT_START)),
            Input::ReplyNotSent => return (Stage::Closed, Some(&rules::CALL_REPLY_NOT_SENT)),
            Input::RejectionSent => return refused(turn),
            Input::RejectionNotSent => return (Stage::Closed, Some(&rules::REFUSAL_NOT_SENT)),
            Input::Broken | Input::HungUp => return (Stage::Closed, Some(&rules::CALL_LEFT)),
            _ if gives_up(input) => return (Stage::Closed, Some(&rules::CALL_LEFT)),
            _ => return (Stage::Parked(self), None),
        };
        (Stage::Parked(self), Some(rule))
    }
}
