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

use super::{
    patience::{Patience, TimeOuts},
    rules, timeout,
    transition::{Next, Transition},
    First, Input, Plan, Rule,
};

/// The attempt waits for its turn to make a TLS handshake. TCP has not begun to connect.
#[derive(Clone, Debug)]
pub(super) struct AwaitTlsSlot {
    plan: Plan,
    patience: Patience,
}

/// TCP is connecting.
#[derive(Clone, Debug)]
pub(super) struct Connecting {
    plan: Plan,
    patience: Patience,
}

/// TCP was refused. The attempt is repeated after a moment.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    plan: Plan,
}

/// The TLS handshake is made.
#[derive(Clone, Debug)]
pub(super) struct Securing {
    plan: Plan,
    patience: Patience,
    /// tlshd was asked for it.
    started: bool,
}

/// The MPA Request was sent.
#[derive(Clone, Debug)]
pub(super) struct AwaitReply {
    plan: Plan,
    patience: Patience,
    /// What had come from the peer before the queue pair was started, which sends an RTR.
    received: u64,
}

/// The end of an attempt that this end gives up, in the stages without a handshake.
fn given_up(input: Input) -> Option<&'static Rule> {
    match input {
        Input::Abort | Input::Flush | Input::Close | Input::Leave => Some(&rules::SETUP_ABORTED),
        Input::Broken => Some(&rules::SETUP_BROKEN),
        _ => None,
    }
}

/// The time-outs of a stage without a handshake, in which `look` has it go on.
const fn time_outs(look: &'static Rule) -> TimeOuts {
    TimeOuts {
        orphaned: Some(&rules::SETUP_ORPHANED),
        late: &rules::SETUP_LATE,
        again: None,
        look,
    }
}

impl AwaitTlsSlot {
    const TIME_OUTS: TimeOuts = time_outs(&rules::TURN_LOOK);

    pub(super) fn begin(plan: Plan, transition: &mut Transition<'_>) -> Self {
        let patience = Patience::begin(plan.tls_wait, transition);
        Self { plan, patience }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::Turn => {
                let mut plan = self.plan;
                // All turns of an attempt that is repeated have this time together.
                plan.tls_wait = self.patience.left(transition).max(1);
                transition.go(&rules::TURN_COMES, Next::Connecting(plan))
            }
            Input::Timeout => self.patience.time_out(false, &Self::TIME_OUTS, transition),
            _ => return given_up(input),
        })
    }
}

impl Connecting {
    const TIME_OUTS: TimeOuts = time_outs(&rules::CONNECTING_LOOK);

    pub(super) fn begin(plan: Plan, transition: &mut Transition<'_>) -> Self {
        let patience = Patience::begin(plan.connect, transition);
        Self { plan, patience }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        let mut plan = self.plan;
        Some(match input {
            Input::Connected if plan.secure => {
                transition.go(&rules::CONNECTED_FOR_TLS, Next::Securing(plan))
            }
            Input::Connected => {
                let rule = if plan.to_itself {
                    &rules::CONNECTED_TO_ITSELF
                } else {
                    &rules::CONNECTED
                };
                transition.go(rule, Next::AwaitReply(plan))
            }
            Input::Refused if plan.refused < timeout::REFUSALS => {
                // The shift is bounded by the number of refusals.
                transition.wait(timeout::REFUSED.wrapping_shl(plan.refused));
                plan.refused = plan.refused.saturating_add(1);
                // All tries together have no more time than one.
                plan.connect = self.patience.left(transition).max(1);
                transition.go(&rules::REFUSED, Next::Backoff(plan))
            }
            Input::Refused => &rules::REFUSED_FOR_GOOD,
            Input::Timeout => self.patience.time_out(false, &Self::TIME_OUTS, transition),
            _ => return given_up(input),
        })
    }
}

impl Backoff {
    /// The timer is set already.
    pub(super) fn begin(plan: Plan) -> Self {
        Self { plan }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        match input {
            Input::Timeout if transition.seen.orphaned => Some(&rules::SETUP_ORPHANED),
            Input::Timeout => Some(transition.go(&rules::BACKOFF_OVER, Next::Retry(self.plan))),
            // What the socket says is what was said before.
            Input::Broken => None,
            _ => given_up(input),
        }
    }
}

impl Securing {
    const TIME_OUTS: TimeOuts = TimeOuts {
        orphaned: Some(&rules::TLS_ORPHANED),
        late: &rules::TLS_LATE,
        again: Some(&rules::TLS_AGAIN),
        look: &rules::TLS_LOOK,
    };

    pub(super) fn begin(plan: Plan, transition: &mut Transition<'_>) -> Self {
        let patience = Patience::until(timeout::TLS, transition);
        patience.go_on(true, transition);
        Self {
            plan,
            patience,
            started: false,
        }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::Abort | Input::Flush | Input::Close | Input::Leave => &rules::TLS_ABORTED,
            Input::TlsStarted => {
                self.started = true;
                self.patience.go_on(false, transition);
                &rules::TLS_STARTED
            }
            // The kernel has no room for a handshake at the moment.
            Input::TryAgain if !self.started => {
                self.patience.go_on(true, transition);
                &rules::TLS_PENDING
            }
            Input::TlsDone => {
                self.patience.go_on(false, transition);
                &rules::TLS_DONE
            }
            Input::Secured => transition.go(&rules::SECURED, Next::AwaitReply(self.plan)),
            Input::TlsFailed => &rules::TLS_FAILED,
            Input::Timeout => self
                .patience
                .time_out(!self.started, &Self::TIME_OUTS, transition),
            _ => return None,
        })
    }
}

impl AwaitReply {
    const TIME_OUTS: TimeOuts = time_outs(&rules::REPLY_LOOK);

    pub(super) fn begin(plan: Plan, transition: &mut Transition<'_>) -> Self {
        let patience = Patience::begin(timeout::REPLY, transition);
        Self {
            plan,
            patience,
            received: 0,
        }
    }

    /// Goes on with another connection, whose Request does without the offer of large FPDUs, and
    /// perhaps without revision 2.
    fn fall_back(
        &self,
        revision: u8,
        rule: &'static Rule,
        transition: &mut Transition<'_>,
    ) -> &'static Rule {
        let plan = Plan {
            large_fpdu: false,
            revision,
            connect: timeout::CONNECT,
            ..self.plan
        };
        transition.go(rule, Next::Retry(plan))
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        let Plan {
            revision,
            large_fpdu,
            secure,
            exact,
            ..
        } = self.plan;
        Some(match input {
            Input::Accepted => {
                // Before the queue pair starts, which sends the RTR: a quick peer has answered that
                // by the time that it has started.
                self.received = transition.seen.received;
                &rules::ACCEPTED
            }
            Input::Started | Input::StartedWithRtr => {
                let first = match input {
                    Input::Started => First::Ours,
                    _ => First::OurRtr(self.received),
                };
                transition.go(&rules::STARTED, Next::Streaming(first))
            }
            Input::CannotStart => &rules::CANNOT_START,
            Input::Incompatible => &rules::INCOMPATIBLE,
            Input::TerminateSent => transition.go(&rules::TERMINATE_SENT, Next::Linger),
            Input::TerminateNotSent => &rules::TERMINATE_NOT_SENT,
            Input::OldFormat if revision >= 2 && !exact => {
                self.fall_back(1, &rules::OLD_FORMAT, transition)
            }
            Input::OfferRejected if large_fpdu && !exact => {
                self.fall_back(revision, &rules::OFFER_REJECTED, transition)
            }
            Input::Rejected | Input::OfferRejected => &rules::REJECTED,
            Input::BadReply | Input::OldFormat => &rules::BAD_REPLY,
            // The end of a handshake is this end's opinion only: a responder that does not accept
            // the certificate says so afterwards. And all who know TLS know revision 2.
            Input::HungUp if secure => &rules::NOT_ACCEPTED,
            Input::HungUp if exact => &rules::HUNG_UP_FOR_GOOD,
            Input::HungUp if large_fpdu => self.fall_back(revision, &rules::HUNG_UP, transition),
            Input::HungUp if revision >= 2 => self.fall_back(1, &rules::HUNG_UP, transition),
            Input::HungUp => &rules::HUNG_UP_FOR_GOOD,
            Input::Timeout => self.patience.time_out(false, &Self::TIME_OUTS, transition),
            _ => return given_up(input),
        })
    }
}
