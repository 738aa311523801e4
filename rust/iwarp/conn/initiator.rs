// SPDX-License-Identifier: GPL-2.0

//! The initiator: TCP connects, TLS if it is wanted, MPA Request, MPA Reply (RFC 5044 section 7.1,
//! RFC 6581).
//!
//! An attempt may take several TCP connections. A responder may close the connection because of the
//! reserved bit that offers large FPDUs, though RFC 5044 section 7.1.1 has it ignore the bit; or
//! because it knows only MPA revision 1. Nothing tells which. So the attempt is repeated first
//! without the offer, then with revision 1 (RFC 6581 section 10). An attempt that the peer's TCP
//! refuses is repeated as well, a few times: some servers say that they are ready before they
//! listen.

use super::{rules, timeout, First, Input, Linger, Next, Patience, Rule, Stage, Streaming, Turn};

/// What an attempt to connect asks for and has left, from one of its connections to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The MPA revision of the Request.
    pub revision: u8,
    /// Whether FPDUs that are larger than a TCP segment are offered.
    pub large_fpdu: bool,
    /// Over TLS, and only so.
    pub secure: bool,
    /// The peer has to know all that the Request asks for: it is not asked for less.
    pub exact: bool,
    /// The queue pair is its own peer, so there is nobody to agree with.
    pub to_itself: bool,
    /// How long the peer may say nothing before the RTR is sent once more; 0: for ever.
    pub rtr_wait: u32,
    /// Milliseconds that TCP has to connect.
    connect: u32,
    /// Milliseconds that are left for the turns to make TLS handshakes.
    turn: u32,
    /// How often the peer's TCP has refused the connection.
    refused: u32,
}

/// The attempt waits for its turn to make a TLS handshake. TCP has not begun to connect.
#[derive(Clone, Debug)]
pub struct AwaitTurn {
    plan: Plan,
    patience: Patience,
}

/// TCP is connecting.
#[derive(Clone, Debug)]
pub struct Connecting {
    plan: Plan,
    patience: Patience,
}

/// TCP was refused. The attempt is repeated after a moment.
#[derive(Clone, Debug)]
pub struct Backoff {
    plan: Plan,
}

/// The TLS handshake is made.
#[derive(Clone, Debug)]
pub struct Securing {
    plan: Plan,
    patience: Patience,
    /// tlshd was asked for it.
    started: bool,
}

/// The MPA Request was sent.
#[derive(Clone, Debug)]
pub struct AwaitReply {
    plan: Plan,
    patience: Patience,
    /// What had come from the peer before the queue pair was started, which sends an RTR.
    received: u64,
}

/// The connection is over, and the attempt goes on with another one.
#[derive(Clone, Debug)]
pub struct Retry {
    pub(super) plan: Plan,
}

impl Plan {
    /// An attempt that has all its time.
    pub const fn new(revision: u8, large_fpdu: bool, secure: bool, rtr_wait: u32) -> Self {
        Self {
            revision,
            large_fpdu,
            secure,
            exact: false,
            to_itself: false,
            rtr_wait,
            connect: timeout::CONNECT,
            turn: timeout::TURN,
            refused: 0,
        }
    }

    /// The same attempt, for a peer that has to know all that the Request asks for.
    pub const fn exactly(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }

    /// The same attempt, of a queue pair that is its own peer. A TCP socket that is connected to
    /// itself receives what it sends; so it has no Request to send, and does without TLS.
    pub const fn to_itself(self) -> Self {
        Self {
            to_itself: true,
            secure: false,
            ..self
        }
    }
}

/// The end of an attempt that this end gives up, in the stages without a handshake.
fn given_up(input: Input) -> Option<&'static Rule> {
    match input {
        Input::Abort | Input::Flush | Input::Close | Input::Leave => Some(&rules::SETUP_ABORTED),
        Input::Broken => Some(&rules::SETUP_BROKEN),
        _ => None,
    }
}

/// What a look at the time has found.
enum Look {
    /// The attempt ends, by this rule.
    Ends(&'static Rule),
    /// It goes on; the timer is set.
    GoesOn,
}

impl Patience {
    /// Looks whether the attempt ends, every [`timeout::ORPHAN_CHECK`].
    ///
    /// One reason is the end of the process that made the attempt. iwcm lets nobody destroy an
    /// identifier before it has its `CONNECT_REPLY`, so without this look a killed process would
    /// stay until the peer's time is up. The end of the process is not reported to the driver: the
    /// queue pair may be destroyed after the identifier.
    fn look(self, turn: &mut Turn<'_>) -> Look {
        if turn.seen.orphaned {
            return Look::Ends(&rules::SETUP_ORPHANED);
        }
        if self.go_on(timeout::ORPHAN_CHECK, turn) {
            Look::GoesOn
        } else {
            Look::Ends(&rules::SETUP_LATE)
        }
    }
}

impl AwaitTurn {
    pub(super) fn begin(plan: Plan, turn: &mut Turn<'_>) -> Stage {
        let patience = Patience::begin(plan.turn, turn);
        Stage::AwaitTurn(Self { plan, patience })
    }

    pub(super) fn handle(mut self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            Input::Turn => {
                // All turns of an attempt that is repeated have this time together.
                self.plan.turn = self.patience.left(turn).max(1);
                return (Connecting::begin(self.plan, turn), Some(&rules::TURN_COMES));
            }
            Input::Timeout => match self.patience.look(turn) {
                Look::Ends(rule) => return (Stage::Closed, Some(rule)),
                Look::GoesOn => &rules::TURN_LOOK,
            },
            _ => match given_up(input) {
                Some(rule) => return (Stage::Closed, Some(rule)),
                None => return (Stage::AwaitTurn(self), None),
            },
        };
        (Stage::AwaitTurn(self), Some(rule))
    }
}

impl Connecting {
    pub(super) fn begin(plan: Plan, turn: &mut Turn<'_>) -> Stage {
        let patience = Patience::begin(plan.connect, turn);
        Stage::Connecting(Self { plan, patience })
    }

    pub(super) fn handle(self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            Input::Connected if self.plan.secure => {
                let stage = Securing::begin(self.plan, turn);
                return (stage, Some(&rules::CONNECTED_FOR_TLS));
            }
            Input::Connected if self.plan.to_itself => {
                let stage = AwaitReply::begin(self.plan, turn);
                return (stage, Some(&rules::CONNECTED_TO_ITSELF));
            }
            Input::Connected => {
                return (AwaitReply::begin(self.plan, turn), Some(&rules::CONNECTED))
            }
            Input::Refused if self.plan.refused < timeout::REFUSALS => {
                let mut plan = self.plan;
                // The shift is bounded by the number of refusals.
                turn.wait(timeout::REFUSED.wrapping_shl(plan.refused));
                plan.refused = plan.refused.saturating_add(1);
                // All tries together have no more time than one.
                plan.connect = self.patience.left(turn).max(1);
                return (Stage::Backoff(Backoff { plan }), Some(&rules::REFUSED));
            }
            Input::Refused => return (Stage::Closed, Some(&rules::REFUSED_FOR_GOOD)),
            Input::Timeout => match self.patience.look(turn) {
                Look::Ends(rule) => return (Stage::Closed, Some(rule)),
                Look::GoesOn => &rules::CONNECTING_LOOK,
            },
            _ => match given_up(input) {
                Some(rule) => return (Stage::Closed, Some(rule)),
                None => return (Stage::Connecting(self), None),
            },
        };
        (Stage::Connecting(self), Some(rule))
    }
}

impl Backoff {
    pub(super) fn handle(self, input: Input, turn: &mut Turn<'_>) -> Next {
        match input {
            Input::Timeout if turn.seen.orphaned => (Stage::Closed, Some(&rules::SETUP_ORPHANED)),
            Input::Timeout => (
                Stage::Retry(Retry { plan: self.plan }),
                Some(&rules::BACKOFF_OVER),
            ),
            // What the socket says is what was said before.
            Input::Broken => (Stage::Backoff(self), None),
            _ => match given_up(input) {
                Some(rule) => (Stage::Closed, Some(rule)),
                None => (Stage::Backoff(self), None),
            },
        }
    }
}

impl Securing {
    fn begin(plan: Plan, turn: &mut Turn<'_>) -> Stage {
        let patience = Patience::until(timeout::TLS, turn);
        patience.go_on_with_tls(true, turn);
        Stage::Securing(Self {
            plan,
            patience,
            started: false,
        })
    }

    pub(super) fn handle(mut self, input: Input, turn: &mut Turn<'_>) -> Next {
        let rule = match input {
            Input::Abort | Input::Flush | Input::Close | Input::Leave => {
                return (Stage::Closed, Some(&rules::TLS_ABORTED));
            }
            Input::TlsStarted => {
                self.started = true;
                self.patience.go_on_with_tls(false, turn);
                &rules::TLS_STARTED
            }
            // The kernel has no room for a handshake at the moment.
            Input::TryAgain if !self.started => {
                self.patience.go_on_with_tls(true, turn);
                &rules::TLS_PENDING
            }
            Input::TlsDone => {
                self.patience.go_on_with_tls(false, turn);
                &rules::TLS_DONE
            }
            Input::Secured => return (AwaitReply::begin(self.plan, turn), Some(&rules::SECURED)),
            Input::TlsFailed => return (Stage::Closed, Some(&rules::TLS_FAILED)),
            Input::Timeout if turn.seen.orphaned => {
                return (Stage::Closed, Some(&rules::TLS_ORPHANED));
            }
            Input::Timeout => match self.patience.go_on_with_tls(!self.started, turn) {
                false => return (Stage::Closed, Some(&rules::TLS_LATE)),
                true if self.started => &rules::TLS_LOOK,
                true => &rules::TLS_AGAIN,
            },
            _ => return (Stage::Securing(self), None),
        };
        (Stage::Securing(self), Some(rule))
    }
}

impl AwaitReply {
    fn begin(plan: Plan, turn: &mut Turn<'_>) -> Stage {
        let patience = Patience::begin(timeout::REPLY, turn);
        Stage::AwaitReply(Self {
            plan,
            patience,
            received: 0,
        })
    }

    /// Goes on with another connection, whose Request does without the offer of large FPDUs, and
    /// perhaps without revision 2.
    fn fall_back(self, revision: u8) -> Stage {
        let mut plan = self.plan;
        plan.large_fpdu = false;
        plan.revision = revision;
        plan.connect = timeout::CONNECT;
        Stage::Retry(Retry { plan })
    }

    pub(super) fn handle(mut self, input: Input, turn: &mut Turn<'_>) -> Next {
        let Plan {
            revision,
            large_fpdu,
            secure,
            exact,
            rtr_wait,
            ..
        } = self.plan;
        match input {
            Input::Accepted => {
                // Before the queue pair starts, which sends the RTR: a quick peer has answered that
                // by the time that it has started.
                self.received = turn.seen.received;
                (Stage::AwaitReply(self), Some(&rules::ACCEPTED))
            }
            Input::Started | Input::StartedWithRtr => {
                let first = match input {
                    Input::Started => First::Ours,
                    _ => First::OurRtr(self.received),
                };
                turn.no_wait();
                let stage = Streaming::begin(first, rtr_wait, turn);
                (stage, Some(&rules::STARTED))
            }
            Input::CannotStart => (Stage::AwaitReply(self), Some(&rules::CANNOT_START)),
            Input::Incompatible => (Stage::AwaitReply(self), Some(&rules::INCOMPATIBLE)),
            Input::TerminateSent => (
                Stage::Linger(Linger::begin(turn)),
                Some(&rules::TERMINATE_SENT),
            ),
            Input::TerminateNotSent => (Stage::Closed, Some(&rules::TERMINATE_NOT_SENT)),
            Input::OldFormat if revision >= 2 && !exact => {
                (self.fall_back(1), Some(&rules::OLD_FORMAT))
            }
            Input::OfferRejected if large_fpdu && !exact => {
                (self.fall_back(revision), Some(&rules::OFFER_REJECTED))
            }
            Input::Rejected | Input::OfferRejected => (Stage::Closed, Some(&rules::REJECTED)),
            Input::BadReply | Input::OldFormat => (Stage::Closed, Some(&rules::BAD_REPLY)),
            // The end of a handshake is this end's opinion only: a responder that does not accept
            // the certificate says so afterwards. And all who know TLS know revision 2.
            Input::HungUp if secure => (Stage::Closed, Some(&rules::NOT_ACCEPTED)),
            Input::HungUp if exact => (Stage::Closed, Some(&rules::HUNG_UP_FOR_GOOD)),
            Input::HungUp if large_fpdu => (self.fall_back(revision), Some(&rules::HUNG_UP)),
            Input::HungUp if revision >= 2 => (self.fall_back(1), Some(&rules::HUNG_UP)),
            Input::HungUp => (Stage::Closed, Some(&rules::HUNG_UP_FOR_GOOD)),
            Input::Timeout => match self.patience.look(turn) {
                Look::Ends(rule) => (Stage::Closed, Some(rule)),
                Look::GoesOn => (Stage::AwaitReply(self), Some(&rules::REPLY_LOOK)),
            },
            _ => match given_up(input) {
                Some(rule) => (Stage::Closed, Some(rule)),
                None => (Stage::AwaitReply(self), None),
            },
        }
    }
}
