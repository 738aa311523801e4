// SPDX-License-Identifier: GPL-2.0

//! How an initiator connects, what it does about peers that do not take what it asks for, and how
//! long each wait may take (Documentation/connection.md).

mod tls;

use iwarp::conn::{Action, Answer, Input, Lost, Machine, Plan, Report, SetUp, StageName, Status};
use iwarp::mpa::{FrameKind, Initiator, Offer, RtrSet, FRAME_MAX};

use super::case::Case;
use super::startup::{enhanced, fail, offer, Raw, LIMITS};
use super::Outcome;

cases! { rsiw_iwarp_connecting:
    connects
    connects_with_an_rtr
    tcp_has_twenty_seconds
    a_refused_connection_is_tried_again
    all_tries_have_the_time_of_one
    an_unreachable_peer_is_not_tried_again
    a_reply_has_thirty_seconds
    late_looks_do_not_add_up
    a_process_that_ends
    a_queue_pair_that_goes
    a_removed_device_fails_attempts
    a_rejection_is_told
    a_bad_reply_ends_the_attempt
    falls_back_from_large_fpdus_and_from_revision_2
    revision_1_does_not_fall_back
    an_old_reply_needs_one_more_attempt
    a_rejected_offer_needs_one_more_attempt
    a_repeated_attempt_has_its_time_again
    terms_that_cannot_be_met
    a_terminate_that_cannot_be_sent
    a_queue_pair_that_cannot_start
    a_request_that_cannot_be_sent
    an_answer_of_each_kind
}

/// What ends an attempt, and how it is told.
const fn failed(status: Status) -> [Action; 4] {
    [
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Handshake),
        Action::ReportReply(Report::Failed(status)),
    ]
}

const ABORTED: [Action; 4] = failed(Status::Aborted);
const REQUEST: [Action; 2] = [
    Action::SetUp(SetUp::FreePlace),
    Action::SetUp(SetUp::SendRequest),
];

impl Case {
    fn connecting() -> Self {
        Self::of(Plan::new(2, false, false, 100))
    }

    /// The Request was sent.
    fn asking(plan: Plan) -> Self {
        let mut case = Self::of(plan);
        let _ = case.gives(Input::Connected);
        case
    }

    fn waiting() -> Self {
        Self::asking(Plan::new(2, false, false, 100))
    }

    /// tlshd was asked for a handshake.
    fn securing() -> Self {
        let mut case = Self::of(Plan::new(2, true, true, 100));
        let _ = case.gives(Input::Connected);
        let _ = case.gives(Input::TlsStarted);
        case
    }
}

const STARTED: [Action; 3] = [
    Action::ReportReply(Report::Connected),
    Action::Watch,
    Action::GiveStream,
];

/// TCP connects, the Request is sent, the Reply accepts, the queue pair starts.
pub(crate) fn connects() -> Outcome {
    let mut case = Case::connecting();
    check!(case.leads(Input::Connected, StageName::AwaitReply, &REQUEST));
    check!(case.leads(
        Input::Accepted,
        StageName::AwaitReply,
        &[Action::SetUp(SetUp::StartQueuePair)]
    ));
    check!(case.leads(Input::Started, StageName::Streaming, &STARTED));
    check!(case.left().is_none());
    Ok(())
}

/// An RTR is repeated if nothing has come since before the queue pair was started.
pub(crate) fn connects_with_an_rtr() -> Outcome {
    for (answered, repeats) in [(false, true), (true, false)] {
        let mut case = Case::waiting();
        case.seen.received = 24;
        case.gives(Input::Accepted);
        if answered {
            // A quick peer answers before the queue pair has started.
            case.seen.received = 48;
        }
        check!(case.leads(Input::StartedWithRtr, StageName::Streaming, &STARTED));
        check!(case.left() == Some(100));
        case.seen.now += 100;
        check!(case.gives(Input::Timeout).is_some() == repeats);
    }
    Ok(())
}

/// A peer that does not answer the SYN: 20 s.
pub(crate) fn tcp_has_twenty_seconds() -> Outcome {
    let mut case = Case::connecting();
    let took = case.passes(0);
    check!((19_980..=20_000).contains(&took));
    check!(case.stage() == StageName::Closed);
    Ok(())
}

/// A peer that does not listen: again after 20, 40 and 80 ms, then the consumer is told.
pub(crate) fn a_refused_connection_is_tried_again() -> Outcome {
    let mut case = Case::connecting();
    for ms in [20, 40, 80] {
        check!(case.leads(
            Input::Refused,
            StageName::Backoff,
            &[Action::SetUp(SetUp::FreePlace)]
        ));
        check!(case.left() == Some(ms));
        check!(case.gives(Input::Broken).is_none());
        case.seen.now += ms;
        check!(case.gives(Input::Timeout).is_some());
        check!(case.stage() == StageName::Retry && case.left().is_none());
        (case, _) = case.again()?;
    }
    check!(case.leads(Input::Refused, StageName::Closed, &failed(Status::Refused)));
    Ok(())
}

/// A peer that refuses late, and then says nothing: no more than 20 s in all.
pub(crate) fn all_tries_have_the_time_of_one() -> Outcome {
    let mut case = Case::connecting();
    let began = case.seen.now;
    case.seen.now += 15_000;
    case.gives(Input::Refused);
    case.seen.now += 20;
    case.gives(Input::Timeout);
    let (mut case, _) = case.again()?;
    case.passes(0);
    check!(case.stage() == StageName::Closed);
    check!(case.seen.now - began <= 20_020);
    Ok(())
}

/// Another error than a refusal is told at once.
pub(crate) fn an_unreachable_peer_is_not_tried_again() -> Outcome {
    let mut case = Case::connecting();
    check!(case.leads(Input::Broken, StageName::Closed, &failed(Status::OfSocket)));
    Ok(())
}

/// A peer that does not answer the Request: 30 s.
pub(crate) fn a_reply_has_thirty_seconds() -> Outcome {
    let mut case = Case::waiting();
    let took = case.passes(0);
    check!((29_980..=30_000).contains(&took));
    check!(case.stage() == StageName::Closed);
    Ok(())
}

/// The looks for the process are late on a busy machine. The end of the wait is not.
pub(crate) fn late_looks_do_not_add_up() -> Outcome {
    let took = Case::waiting().passes(500);
    check!((29_980..=30_500).contains(&took));
    Ok(())
}

/// A process that has ended is noticed within a second, in each stage.
pub(crate) fn a_process_that_ends() -> Outcome {
    for mut case in [Case::connecting(), Case::waiting()] {
        case.seen.orphaned = true;
        check!(case.left() == Some(1000));
        case.seen.now += 1000;
        check!(case.leads(Input::Timeout, StageName::Closed, &ABORTED));
    }
    let mut case = Case::connecting();
    case.gives(Input::Refused);
    case.seen.orphaned = true;
    case.seen.now += 20;
    check!(case.leads(Input::Timeout, StageName::Closed, &ABORTED));
    Ok(())
}

/// A queue pair that closes, in whatever way, ends an attempt.
pub(crate) fn a_queue_pair_that_goes() -> Outcome {
    for input in [Input::Close, Input::Flush, Input::Abort] {
        for mut case in [Case::connecting(), Case::waiting()] {
            check!(case.leads(input, StageName::Closed, &ABORTED));
            check!(case.gives(Input::Connected).is_none());
        }
    }
    Ok(())
}

/// Nobody who destroys an identifier waits for an attempt on a device that goes.
pub(crate) fn a_removed_device_fails_attempts() -> Outcome {
    for mut case in [Case::connecting(), Case::waiting()] {
        check!(case.leads(Input::Leave, StageName::Closed, &ABORTED));
    }
    let mut case = Case::connecting();
    case.gives(Input::Refused);
    check!(case.leads(Input::Leave, StageName::Closed, &ABORTED));
    Ok(())
}

/// What a peer says with its rejection is the consumer's.
pub(crate) fn a_rejection_is_told() -> Outcome {
    let mut case = Case::asking(Plan::new(2, true, false, 100));
    let actions = [
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Handshake),
        Action::ReportReply(Report::Answered(Status::Refused)),
    ];
    check!(case.leads(Input::Rejected, StageName::Closed, &actions));
    Ok(())
}

/// A Reply that no peer may send.
pub(crate) fn a_bad_reply_ends_the_attempt() -> Outcome {
    let mut case = Case::waiting();
    check!(case.leads(
        Input::BadReply,
        StageName::Closed,
        &failed(Status::Protocol)
    ));
    Ok(())
}

/// What ends a connection of an attempt that asks for less.
const fn again(status: Status) -> [Action; 6] {
    [
        Action::CountRepeated,
        Action::Detach,
        Action::Reset,
        Action::SetUp(SetUp::FreePlace),
        Action::Lose(Lost::Handshake),
        Action::Again(status),
    ]
}

//= 6581-10-3
/// A peer that closes each time is asked without the offer, then in the format of revision 1; then
/// the consumer gets one error.
pub(crate) fn falls_back_from_large_fpdus_and_from_revision_2() -> Outcome {
    let mut case = Case::asking(Plan::new(2, true, false, 100));
    for revision in [2, 1] {
        check!(case.leads(Input::HungUp, StageName::Retry, &again(Status::OfSocket)));
        let (next, plan) = case.again()?;
        check!(plan.revision == revision && !plan.large_fpdu);
        case = next;
        case.gives(Input::Connected);
    }
    check!(case.leads(Input::HungUp, StageName::Closed, &failed(Status::OfSocket)));
    Ok(())
}

/// With revision 1 nothing is left to do without.
pub(crate) fn revision_1_does_not_fall_back() -> Outcome {
    let mut case = Case::asking(Plan::new(1, false, false, 100));
    check!(case.leads(Input::HungUp, StageName::Closed, &failed(Status::OfSocket)));
    Ok(())
}

/// A Reply in the old format says what the peer does not know: one more attempt is enough.
pub(crate) fn an_old_reply_needs_one_more_attempt() -> Outcome {
    let mut case = Case::asking(Plan::new(2, true, false, 100));
    check!(case.leads(Input::OldFormat, StageName::Retry, &again(Status::Refused)));
    let (_, plan) = case.again()?;
    check!(plan.revision == 1 && !plan.large_fpdu);
    Ok(())
}

/// A rejection that may be one of the offer.
pub(crate) fn a_rejected_offer_needs_one_more_attempt() -> Outcome {
    let mut case = Case::asking(Plan::new(2, true, false, 100));
    check!(case.leads(
        Input::OfferRejected,
        StageName::Retry,
        &again(Status::Refused)
    ));
    let (_, plan) = case.again()?;
    check!(plan.revision == 2 && !plan.large_fpdu);
    Ok(())
}

/// TCP has 20 s again for a connection that asks for less.
pub(crate) fn a_repeated_attempt_has_its_time_again() -> Outcome {
    let mut case = Case::connecting();
    case.seen.now += 15_000;
    case.gives(Input::Refused);
    case.seen.now += 20;
    case.gives(Input::Timeout);
    let (mut case, _) = case.again()?;
    case.gives(Input::Connected);
    case.gives(Input::HungUp);
    let (mut case, _) = case.again()?;
    check!((19_980..=20_000).contains(&case.passes(0)));
    Ok(())
}

/// A Terminate, then the connection lingers; the consumer is told at once.
pub(crate) fn terms_that_cannot_be_met() -> Outcome {
    let mut case = Case::waiting();
    check!(case.leads(
        Input::Incompatible,
        StageName::AwaitReply,
        &[Action::SetUp(SetUp::SendTerminate)]
    ));
    let actions = [
        Action::Discard,
        Action::SendFin,
        Action::Lose(Lost::Handshake),
        Action::ReportReply(Report::Answered(Status::Protocol)),
    ];
    check!(case.leads(Input::TerminateSent, StageName::Linger, &actions));
    case.gives(Input::FinSent);
    check!(case.left() == Some(5000));
    check!(case.leads(Input::PeerFin, StageName::Closed, &[Action::Detach]));
    Ok(())
}

/// Without the Terminate a reset tells the peer.
pub(crate) fn a_terminate_that_cannot_be_sent() -> Outcome {
    let mut case = Case::waiting();
    case.gives(Input::Incompatible);
    let actions = [
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Handshake),
        Action::ReportReply(Report::Answered(Status::Protocol)),
    ];
    check!(case.leads(Input::TerminateNotSent, StageName::Closed, &actions));
    Ok(())
}

/// RFC 6581 section 9.3: a peer that has accepted is told by a Terminate as well.
pub(crate) fn a_queue_pair_that_cannot_start() -> Outcome {
    let mut case = Case::waiting();
    case.gives(Input::Accepted);
    check!(case.leads(
        Input::CannotStart,
        StageName::AwaitReply,
        &[Action::SetUp(SetUp::SendTerminate)]
    ));
    case.gives(Input::TerminateSent);
    check!(case.stage() == StageName::Linger);
    Ok(())
}

/// A Request that TCP does not take is an error, and no reason to ask for less.
pub(crate) fn a_request_that_cannot_be_sent() -> Outcome {
    let mut case = Case::asking(Plan::new(2, true, false, 100));
    check!(case.leads(Input::Broken, StageName::Closed, &failed(Status::OfSocket)));
    Ok(())
}

/// What `raw` means to an attempt.
fn answer(plan: &Plan, raw: &Raw) -> Result<Input, super::Failed> {
    let offer = match plan.revision {
        1 => offer(),
        _ => Offer {
            large_fpdu: plan.large_fpdu,
            send_immediate: plan.large_fpdu,
            ..enhanced(4, 4, RtrSet::EMPTY)
        },
    };
    let (mpa, _) = Initiator::request(&offer, &mut [0; FRAME_MAX]).map_err(fail)?;
    let reader = raw.read(FrameKind::Reply).map_err(fail)?;
    let reply = reader.frame().ok_or(fail(iwarp::mpa::MpaError::Key))?;
    Ok(Answer::of(&reply, mpa, plan, LIMITS).input())
}

//= 5044-7.1.2-7
/// Each kind of Reply to a Request of revision 2 that offers large FPDUs, and to one that does not.
pub(crate) fn an_answer_of_each_kind() -> Outcome {
    let depths = [0, 4, 0, 4];
    for large in [true, false] {
        let plan = Plan::new(2, large, false, 100);
        // C and S; R; "I know the offer".
        check!(answer(&plan, &Raw::reply(0x50, 2, &depths))? == Input::Accepted);
        let reason = [0, 4, 0, 4, b'n', b'o'];
        check!(answer(&plan, &Raw::reply(0x70, 2, &reason))? == Input::Rejected);
        check!(answer(&plan, &Raw::reply(0x74, 2, &depths))? == Input::Rejected);
        let bare = if large {
            Input::OfferRejected
        } else {
            Input::Rejected
        };
        check!(answer(&plan, &Raw::reply(0x70, 2, &depths))? == bare);
        // In the old format: consent is void, a rejection with a reason stands.
        check!(answer(&plan, &Raw::reply(0x40, 1, b""))? == Input::OldFormat);
        check!(answer(&plan, &Raw::reply(0x60, 1, b"no"))? == Input::Rejected);
        // An ORD that is more than this end's limit.
        let deep = [0, 4, 0x3f, 0xfe];
        check!(answer(&plan, &Raw::reply(0x50, 2, &deep))? == Input::Incompatible);
    }
    let plan = Plan::new(1, false, false, 100);
    check!(answer(&plan, &Raw::reply(0x40, 1, b""))? == Input::Accepted);
    check!(answer(&plan, &Raw::reply(0x60, 1, b""))? == Input::Rejected);
    Ok(())
}
