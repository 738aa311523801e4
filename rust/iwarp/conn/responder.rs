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

use super::{
    first_fpdu::{First, Reply},
    patience::{Patience, TimeOuts},
    rules, timeout,
    transition::{Next, Transition},
    Input, Rule,
};

/// The peer has connected, and its first byte has not come, which tells TLS from MPA.
#[derive(Clone, Debug)]
pub(super) struct AwaitOctet;

/// The TLS handshake is made, or waits for its turn.
#[derive(Clone, Debug)]
pub(super) struct AwaitTls {
    patience: Patience,
    handshake: Handshake,
}

/// A handshake until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// Others have their turns first.
    AwaitsSlot,
    /// The turn has come. tlshd is asked for it, and again while the kernel has no room.
    Asks,
    /// tlshd makes it.
    Started,
}

/// The peer has connected and owes a Request.
#[derive(Clone, Debug)]
pub(super) struct AwaitRequest;

/// The Request has come. It is reported when the consumer has answered others.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    /// How often the timer is set again at the most.
    tries: u32,
}

/// The consumer owes an answer.
#[derive(Clone, Debug)]
pub(super) struct Requested {
    /// The peer does not wait for the answer any more.
    gone: bool,
}

/// The Request is a call of a queue pair by name ([`super::names`]), which waits until a queue pair
/// of that number expects somebody.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    /// What has come from the peer with its Request.
    received: u64,
}

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
    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        transition.wait(timeout::REQUEST);
        Self
    }

    pub(super) fn handle(
        &self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        match input {
            Input::TlsBegins => Some(transition.go(&rules::TLS_BEGINS, Next::AwaitTls)),
            // It has no more time than what is left.
            Input::MpaBegins => {
                Some(transition.go(&rules::MPA_BEGINS, Next::AwaitRequest { anew: false }))
            }
            _ => has_no_request(input).then_some(&rules::NO_REQUEST),
        }
    }
}

impl AwaitTls {
    const TIME_OUTS: TimeOuts = TimeOuts {
        orphaned: None,
        late: &rules::PEER_TLS_LATE,
        again: Some(&rules::PEER_TLS_AGAIN),
        look: &rules::PEER_TLS_LOOK,
    };

    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        Self {
            patience: Patience::begin(timeout::TLS, transition),
            handshake: Handshake::AwaitsSlot,
        }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::Turn if self.handshake == Handshake::AwaitsSlot => {
                self.handshake = Handshake::Asks;
                &rules::PEER_TLS_TURN
            }
            Input::TlsStarted => {
                self.handshake = Handshake::Started;
                self.patience.go_on(false, transition);
                &rules::PEER_TLS_STARTED
            }
            // The kernel has no room for a handshake at the moment.
            Input::TryAgain if self.handshake == Handshake::Asks => {
                self.patience.go_on(true, transition);
                &rules::PEER_TLS_PENDING
            }
            Input::TlsDone => &rules::PEER_TLS_DONE,
            Input::Secured => {
                transition.go(&rules::PEER_SECURED, Next::AwaitRequest { anew: true })
            }
            Input::TlsFailed => &rules::PEER_TLS_FAILED,
            Input::Broken => &rules::CANNOT_AWAIT_TURN,
            Input::Timeout => {
                let asks = self.handshake == Handshake::Asks;
                self.patience.time_out(asks, &Self::TIME_OUTS, transition)
            }
            _ if gives_up(input) => &rules::PEER_TLS_ABORTED,
            _ => return None,
        })
    }
}

impl AwaitRequest {
    pub(super) fn begin(anew: bool, transition: &mut Transition<'_>) -> Self {
        if anew {
            transition.wait(timeout::REQUEST);
        }
        Self
    }

    pub(super) fn handle(
        &self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::RequestCame => transition.go(&rules::REQUEST_CAME, Next::Queued),
            Input::Called => transition.go(&rules::CALLED, Next::Parked),
            Input::NotAdmitted => &rules::NOT_ADMITTED,
            Input::RejectionSent => transition.go(&rules::REFUSAL_SENT, Next::Linger),
            Input::RejectionNotSent => &rules::REFUSAL_NOT_SENT,
            _ if has_no_request(input) => &rules::NO_REQUEST,
            _ => return None,
        })
    }
}

impl Queued {
    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        transition.wait(timeout::REQUEST);
        Self {
            tries: const { timeout::REPLY / timeout::REQUEST - 1 },
        }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::NoTurn => &rules::REQUEST_WAITS,
            Input::Turn => &rules::REQUEST_TURN,
            Input::Reported => transition.go(&rules::REPORTED, Next::Requested),
            Input::NotReported => &rules::NOT_REPORTED,
            // The peer has given up, if it does as this driver does.
            Input::Timeout if self.tries == 0 => &rules::REQUEST_WAITS_TOO_LONG,
            Input::Timeout => {
                self.tries = self.tries.saturating_sub(1);
                transition.wait(timeout::REQUEST);
                &rules::REQUEST_WAITS_LONG
            }
            Input::RejectionSent => transition.go(&rules::REFUSAL_SENT, Next::Linger),
            Input::RejectionNotSent => &rules::REFUSAL_NOT_SENT,
            Input::Abort | Input::Flush | Input::Close | Input::Leave | Input::HungUp => {
                &rules::REQUEST_LEFT
            }
            _ => return None,
        })
    }
}

impl Requested {
    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        transition.wait(timeout::ANSWER);
        Self { gone: false }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
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
            Input::RejectionSent => transition.go(&rules::REJECTION_SENT, Next::Linger),
            Input::ReplySent | Input::ReplySentForRtr => {
                let first = match input {
                    Input::ReplySentForRtr => First::Rtr,
                    _ => First::Theirs {
                        wait: transition.silence,
                        reply: Reply::Sent(transition.seen.reply_end),
                    },
                };
                transition.go(&rules::ESTABLISHED, Next::Streaming(first))
            }
            Input::Abort | Input::Flush | Input::Close | Input::Leave | Input::Timeout => {
                &rules::WITHDRAWN
            }
            _ => return None,
        })
    }
}

impl Parked {
    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        transition.wait(timeout::PARKED);
        Self {
            received: transition.seen.received,
        }
    }

    pub(super) fn handle(
        &self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::NotExpected => &rules::CALL_WAITS,
            Input::Turn => &rules::CALL_TURN,
            Input::NotAdmitted | Input::NotAttached => &rules::CALL_REFUSED,
            Input::Timeout => &rules::CALL_WAITS_TOO_LONG,
            Input::ReplySentForRtr => transition.go(
                &rules::CALL_ADMITTED,
                Next::Streaming(First::Call(self.received)),
            ),
            Input::CannotStart => &rules::CALL_CANNOT_START,
            Input::ReplyNotSent => &rules::CALL_REPLY_NOT_SENT,
            Input::RejectionSent => transition.go(&rules::REFUSAL_SENT, Next::Linger),
            Input::RejectionNotSent => &rules::REFUSAL_NOT_SENT,
            Input::Broken | Input::HungUp => &rules::CALL_LEFT,
            _ if gives_up(input) => &rules::CALL_LEFT,
            _ => return None,
        })
    }
}
