// SPDX-License-Identifier: GPL-2.0

//! Which attempts to connect are repeated, with another TCP connection. The driver makes it
//! (`rsiw/cm/initiator/reconnect.rs`).
//!
//! A responder may close the connection because of the reserved bit that offers large FPDUs, though
//! RFC 5044 section 7.1.1 has it ignore the bit; or because it knows only MPA revision 1. Nothing
//! tells which. So the attempt is repeated first without the offer, then with revision 1 (RFC 6581
//! section 10). An attempt that the peer's TCP refuses is repeated as well, a few times: some
//! servers say that they are ready before they listen.

use super::{
    patience::Patience,
    rules, timeout,
    transition::{Next, Transition},
    Input, Plan, Rule,
};

/// TCP was refused. The attempt is repeated after a moment.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    plan: Plan,
}

/// The end of an attempt that this end gives up, in the stages without a handshake.
pub(super) fn given_up(input: Input) -> Option<&'static Rule> {
    match input {
        Input::Abort | Input::Flush | Input::Close | Input::Leave => Some(&rules::SETUP_ABORTED),
        Input::Broken => Some(&rules::SETUP_BROKEN),
        _ => None,
    }
}

/// The peer's TCP has refused: the attempt is repeated after a moment, or fails.
pub(super) fn refused(
    mut plan: Plan,
    patience: &Patience,
    transition: &mut Transition<'_>,
) -> &'static Rule {
    if plan.refused >= timeout::REFUSALS {
        return &rules::REFUSED_FOR_GOOD;
    }
    // The shift is bounded by the number of refusals.
    transition.wait(timeout::REFUSED.wrapping_shl(plan.refused));
    plan.refused = plan.refused.saturating_add(1);
    // All tries together have no more time than one.
    plan.connect = patience.left(transition).max(1);
    transition.go(&rules::REFUSED, Next::Backoff(plan))
}

/// What the Request asked for may be why the peer answers in an old format, rejects, or hangs up:
/// the attempt is repeated with less, or fails.
pub(super) fn turned_down(
    plan: Plan,
    input: Input,
    transition: &mut Transition<'_>,
) -> &'static Rule {
    let Plan {
        revision,
        large_fpdu,
        secure,
        exact,
        ..
    } = plan;
    let (less, rule) = match input {
        Input::OldFormat if revision >= 2 && !exact => (1, &rules::OLD_FORMAT),
        Input::OldFormat => return &rules::BAD_REPLY,
        Input::OfferRejected if large_fpdu && !exact => (revision, &rules::OFFER_REJECTED),
        Input::OfferRejected => return &rules::REJECTED,
        // The end of a handshake is this end's opinion only: a responder that does not accept the
        // certificate says so afterwards. And all who know TLS know revision 2.
        _ if secure => return &rules::NOT_ACCEPTED,
        _ if exact => return &rules::HUNG_UP_FOR_GOOD,
        _ if large_fpdu => (revision, &rules::HUNG_UP),
        _ if revision >= 2 => (1, &rules::HUNG_UP),
        _ => return &rules::HUNG_UP_FOR_GOOD,
    };
    let next = Plan {
        large_fpdu: false,
        revision: less,
        connect: timeout::CONNECT,
        ..plan
    };
    transition.go(rule, Next::Retry(next))
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
