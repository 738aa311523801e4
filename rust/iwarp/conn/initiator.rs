// SPDX-License-Identifier: GPL-2.0

//! The initiator: TCP connects, TLS if it is wanted, MPA Request, MPA Reply (RFC 5044 section 7.1,
//! RFC 6581).
//!
//! An attempt may take several TCP connections (`retry`).

use super::{
    patience::{Patience, TimeOuts},
    retry::{given_up, refused, turned_down},
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
        let plan = self.plan;
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
            Input::Refused => refused(self.plan, &self.patience, transition),
            Input::Timeout => self.patience.time_out(false, &Self::TIME_OUTS, transition),
            _ => return given_up(input),
        })
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

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
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
            Input::OldFormat | Input::OfferRejected | Input::HungUp => {
                turned_down(self.plan, input, transition)
            }
            Input::Rejected => &rules::REJECTED,
            Input::BadReply => &rules::BAD_REPLY,
            Input::Timeout => self.patience.time_out(false, &Self::TIME_OUTS, transition),
            _ => return given_up(input),
        })
    }
}
