// SPDX-License-Identifier: GPL-2.0

//! How a responder takes a connection, has its consumer answer the Request, and how long each wait
//! may take (Documentation/connection.md).

mod tls;

use iwarp::conn::{Action, Input, Lost, SetUp, StageName, Status};

use super::case::Case;
use super::Outcome;

cases! { rsiw_iwarp_answering:
    a_request_is_reported_and_accepted
    a_peer_that_owes_an_rtr
    a_peer_that_is_silent_behind_the_reply
    mpa_where_tls_may_be
    a_first_byte_has_ten_seconds
    mpa_has_the_rest_of_the_ten_seconds
    a_request_has_ten_seconds
    a_peer_without_a_request
    a_silent_peer_gives_way
    a_listener_that_goes
    a_request_waits_for_others
    a_request_waits_half_a_minute
    a_peer_that_leaves_the_queue
    a_request_that_cannot_be_reported
    a_peer_that_may_not_connect
    a_refusal_that_cannot_be_sent
    an_answer_has_seventy_five_seconds
    a_peer_that_goes_before_the_answer
    a_rejection_lingers
    a_rejection_that_does_not_linger
    a_queue_pair_that_cannot_accept
    a_reply_that_cannot_be_sent
    a_removed_device_ends_each_setup
    an_answer_that_comes_too_late
}

const fn set_up(action: SetUp) -> [Action; 1] {
    [Action::SetUp(action)]
}

/// The end of a connection without a Request.
const DROPPED: [Action; 4] = [
    Action::CountDropped,
    Action::Detach,
    Action::Reset,
    Action::FreeSlot,
];

/// The end of a connection within its handshake.
const fn unsecured(why: Status) -> [Action; 5] {
    [
        Action::SetUp(SetUp::FailTls(why)),
        Action::CountDropped,
        Action::Detach,
        Action::Reset,
        Action::FreeSlot,
    ]
}

const RESET: [Action; 3] = [Action::Detach, Action::Reset, Action::FreeSlot];

/// The end of a connection that the consumer has answered.
const fn answered(status: Status) -> [Action; 4] {
    [
        Action::Detach,
        Action::Reset,
        Action::FreeSlot,
        Action::Return(status),
    ]
}

const WITHDRAWN: [Action; 4] = [
    Action::SetUp(SetUp::Withdraw),
    Action::Detach,
    Action::Reset,
    Action::FreeSlot,
];

const REFUSED: [Action; 3] = [
    Action::LeaveOrder,
    Action::CountDropped,
    Action::SetUp(SetUp::SendRejection),
];

const REPORTED: [Action; 3] = [Action::LeaveOrder, Action::CountRequest, Action::LookAgain];

const ESTABLISHED: [Action; 5] = [
    Action::ReportEstablished,
    Action::FreeSlot,
    Action::Return(Status::Ok),
    Action::Watch,
    Action::GiveStream,
];

impl Case {
    /// The Request has come, and others come first.
    fn queued() -> Self {
        let mut case = Self::accepted_for_mpa(0);
        let _ = case.gives(Input::RequestCame);
        let _ = case.gives(Input::NoTurn);
        case
    }

    /// tlshd was asked for a handshake.
    fn shaking_hands() -> Self {
        let mut case = Self::accepted();
        for input in [Input::TlsBegins, Input::Turn, Input::TlsStarted] {
            let _ = case.gives(input);
        }
        case
    }
}

/// A Request comes, is reported in its turn, and accepted: `ESTABLISHED` at once.
pub(crate) fn a_request_is_reported_and_accepted() -> Outcome {
    let mut case = Case::accepted_for_mpa(0);
    check!(case.leads(Input::RequestCame, StageName::Queued, &set_up(SetUp::Queue)));
    let report = set_up(SetUp::ReportRequest);
    check!(case.leads(Input::Turn, StageName::Queued, &report));
    check!(case.leads(Input::Reported, StageName::Requested, &REPORTED));
    let accept = set_up(SetUp::Accept);
    check!(case.leads(Input::Accept, StageName::Requested, &accept));
    check!(case.leads(Input::ReplySent, StageName::Streaming, &ESTABLISHED));
    check!(case.left().is_none());
    Ok(())
}

/// An RTR that the Request has announced has to come within 10 s.
pub(crate) fn a_peer_that_owes_an_rtr() -> Outcome {
    let mut case = Case::requested(200);
    case.gives(Input::Accept);
    check!(case.leads(Input::ReplySentForRtr, StageName::Streaming, &ESTABLISHED));
    check!(case.waits(10_000));
    case.gives(Input::Timeout);
    check!(case.stage() == StageName::Closed);
    Ok(())
}

/// Without an RTR this end may send when the peer has been silent since it has the Reply.
pub(crate) fn a_peer_that_is_silent_behind_the_reply() -> Outcome {
    let mut case = Case::requested(200);
    case.gives(Input::Accept);
    case.seen.reply_end = 24;
    case.gives(Input::ReplySent);
    check!(case.waits(200));
    case.seen.acked = 23;
    check!(case.leads(Input::Timeout, StageName::Streaming, &[]));
    case.seen.acked = 24;
    check!(case.waits(200));
    check!(case.leads(Input::Timeout, StageName::Streaming, &[]));
    check!(case.waits(200));
    check!(case.leads(Input::Timeout, StageName::Streaming, &[Action::MayStart]));
    Ok(())
}

/// A listener that takes TLS reads a Request behind the byte that tells it.
pub(crate) fn mpa_where_tls_may_be() -> Outcome {
    let mut case = Case::accepted();
    let read = set_up(SetUp::ReadRequest);
    check!(case.leads(Input::MpaBegins, StageName::AwaitRequest, &read));
    case.gives(Input::RequestCame);
    check!(case.stage() == StageName::Queued);
    Ok(())
}

/// A peer that connects and says nothing: 10 s.
pub(crate) fn a_first_byte_has_ten_seconds() -> Outcome {
    let mut case = Case::accepted();
    check!(case.waits(10_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &DROPPED));
    Ok(())
}

/// A peer that sends its Request byte by byte has no more time for that.
pub(crate) fn mpa_has_the_rest_of_the_ten_seconds() -> Outcome {
    let mut case = Case::accepted();
    case.seen.now += 9_000;
    case.gives(Input::MpaBegins);
    check!(case.waits(1_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &DROPPED));
    Ok(())
}

//= 5044-7.1.2-2
/// The same without TLS.
pub(crate) fn a_request_has_ten_seconds() -> Outcome {
    let mut case = Case::accepted_for_mpa(0);
    check!(case.waits(10_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &DROPPED));
    Ok(())
}

/// A peer that goes, sends no Request, or begins without the TLS that is required.
pub(crate) fn a_peer_without_a_request() -> Outcome {
    for input in [
        Input::HungUp,
        Input::BadRequest,
        Input::NoTls,
        Input::Broken,
        Input::Abort,
        Input::Leave,
    ] {
        for mut case in [Case::accepted(), Case::accepted_for_mpa(0)] {
            check!(case.leads(input, StageName::Closed, &DROPPED));
            check!(case.gives(Input::RequestCame).is_none());
        }
    }
    Ok(())
}

/// Where slots are short a peer that has not sent its Request gives way, and no other does.
pub(crate) fn a_silent_peer_gives_way() -> Outcome {
    for mut case in [Case::accepted(), Case::accepted_for_mpa(0)] {
        check!(case.leads(Input::GiveWay, StageName::Closed, &DROPPED));
    }
    let aborted = unsecured(Status::Aborted);
    check!(Case::shaking_hands().leads(Input::GiveWay, StageName::Closed, &aborted));
    for mut case in [Case::queued(), Case::requested(0)] {
        check!(case.gives(Input::GiveWay).is_none());
    }
    Ok(())
}

/// When nobody listens any more, no Request is waited for. One that has come waits for its turn, in
/// which it cannot be reported; one that was reported can still be answered.
pub(crate) fn a_listener_that_goes() -> Outcome {
    for mut case in [Case::accepted(), Case::accepted_for_mpa(0)] {
        check!(case.leads(Input::Unlistened, StageName::Closed, &DROPPED));
    }
    let aborted = unsecured(Status::Aborted);
    check!(Case::shaking_hands().leads(Input::Unlistened, StageName::Closed, &aborted));
    for mut case in [Case::queued(), Case::requested(0)] {
        check!(case.gives(Input::Unlistened).is_none());
    }
    Ok(())
}

/// A Request that comes while the consumer has others is reported in its turn.
pub(crate) fn a_request_waits_for_others() -> Outcome {
    let mut case = Case::accepted_for_mpa(0);
    case.gives(Input::RequestCame);
    check!(case.leads(Input::NoTurn, StageName::Queued, &[Action::LookAgain]));
    let room = set_up(SetUp::MakeRoom);
    for _ in 0..2 {
        check!(case.waits(10_000));
        check!(case.leads(Input::Timeout, StageName::Queued, &room));
    }
    case.gives(Input::Turn);
    check!(case.leads(Input::Reported, StageName::Requested, &REPORTED));
    check!(case.left() == Some(75_000));
    Ok(())
}

/// After half a minute it is refused, as its peer does not wait any longer.
pub(crate) fn a_request_waits_half_a_minute() -> Outcome {
    let mut case = Case::queued();
    for _ in 0..2 {
        case.seen.now += 10_000;
        case.gives(Input::Timeout);
    }
    check!(case.waits(10_000));
    let actions = [
        Action::SetUp(SetUp::MakeRoom),
        Action::LeaveOrder,
        Action::CountDropped,
        Action::SetUp(SetUp::SendRejection),
    ];
    check!(case.leads(Input::Timeout, StageName::Queued, &actions));
    let lingers = [Action::FreeSlot, Action::Discard, Action::SendFin];
    check!(case.leads(Input::RejectionSent, StageName::Linger, &lingers));
    check!(case.left() == Some(5_000));
    Ok(())
}

/// A peer that goes, or a device that is removed, while the Request waits.
pub(crate) fn a_peer_that_leaves_the_queue() -> Outcome {
    for input in [Input::HungUp, Input::Leave, Input::Abort] {
        check!(Case::queued().leads(input, StageName::Closed, &DROPPED));
    }
    Ok(())
}

/// iwcm has no room for the Request, or nobody listens any more: the peer is refused.
pub(crate) fn a_request_that_cannot_be_reported() -> Outcome {
    let mut case = Case::queued();
    case.gives(Input::Turn);
    check!(case.leads(Input::NotReported, StageName::Queued, &REFUSED));
    case.gives(Input::RejectionSent);
    check!(case.stage() == StageName::Linger);
    Ok(())
}

/// A peer that `tls_names` does not name is refused, and its Request not reported.
pub(crate) fn a_peer_that_may_not_connect() -> Outcome {
    let mut case = Case::accepted_for_mpa(0);
    check!(case.leads(Input::NotAdmitted, StageName::AwaitRequest, &REFUSED));
    let lingers = [Action::FreeSlot, Action::Discard, Action::SendFin];
    check!(case.leads(Input::RejectionSent, StageName::Linger, &lingers));
    case.gives(Input::FinSent);
    check!(case.leads(Input::PeerFin, StageName::Closed, &[Action::Detach]));
    Ok(())
}

/// TCP does not take the Reply, or too many refused peers linger: a reset.
pub(crate) fn a_refusal_that_cannot_be_sent() -> Outcome {
    let mut case = Case::accepted_for_mpa(0);
    case.gives(Input::NotAdmitted);
    check!(case.leads(Input::RejectionNotSent, StageName::Closed, &RESET));
    let mut case = Case::queued();
    case.gives(Input::Turn);
    case.gives(Input::NotReported);
    check!(case.leads(Input::RejectionNotSent, StageName::Closed, &RESET));
    Ok(())
}

/// A consumer that never answers: the Request is withdrawn after 75 s.
pub(crate) fn an_answer_has_seventy_five_seconds() -> Outcome {
    let mut case = Case::requested(0);
    check!(case.waits(75_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &WITHDRAWN));
    Ok(())
}

/// A peer that goes is reset at once. Its Request counts until it is answered, in vain, or
/// withdrawn.
pub(crate) fn a_peer_that_goes_before_the_answer() -> Outcome {
    let gone = || {
        let mut case = Case::requested(0);
        let reset = case.leads(Input::HungUp, StageName::Requested, &[Action::Reset]);
        (case, reset)
    };
    for input in [Input::Accept, Input::Reject] {
        let (mut case, reset) = gone();
        check!(reset && case.gives(Input::HungUp).is_none());
        check!(case.leads(input, StageName::Closed, &answered(Status::Reset)));
    }
    let (mut case, _) = gone();
    check!(case.waits(75_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &WITHDRAWN));
    Ok(())
}

/// The consumer rejects: the Reply is delivered, for a bounded time.
pub(crate) fn a_rejection_lingers() -> Outcome {
    let mut case = Case::requested(0);
    let rejects = [Action::CountRejected, Action::SetUp(SetUp::SendRejection)];
    check!(case.leads(Input::Reject, StageName::Requested, &rejects));
    let lingers = [
        Action::FreeSlot,
        Action::Return(Status::Ok),
        Action::Discard,
        Action::SendFin,
    ];
    check!(case.leads(Input::RejectionSent, StageName::Linger, &lingers));
    case.gives(Input::FinSent);
    check!(case.waits(5_000));
    let reset = [Action::Detach, Action::Reset];
    check!(case.leads(Input::Timeout, StageName::Closed, &reset));
    Ok(())
}

/// A rejection that cannot be sent is no error of the consumer's.
pub(crate) fn a_rejection_that_does_not_linger() -> Outcome {
    let mut case = Case::requested(0);
    case.gives(Input::Reject);
    let reset = answered(Status::Ok);
    check!(case.leads(Input::RejectionNotSent, StageName::Closed, &reset));
    Ok(())
}

/// The consumer that accepts is told why there is no connection, and the queue pair only if it had
/// one.
pub(crate) fn a_queue_pair_that_cannot_accept() -> Outcome {
    let mut case = Case::requested(0);
    case.gives(Input::Accept);
    let reset = answered(Status::OfSocket);
    check!(case.leads(Input::NotAttached, StageName::Closed, &reset));
    let mut case = Case::requested(0);
    case.gives(Input::Accept);
    let actions = [
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Handshake),
        Action::FreeSlot,
        Action::Return(Status::OfSocket),
    ];
    check!(case.leads(Input::CannotStart, StageName::Closed, &actions));
    Ok(())
}

/// The queue pair has started, so the connection has reached data transfer.
pub(crate) fn a_reply_that_cannot_be_sent() -> Outcome {
    let mut case = Case::requested(0);
    case.gives(Input::Accept);
    let actions = [
        Action::CountAborted,
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Reset),
        Action::FreeSlot,
        Action::Return(Status::OfSocket),
    ];
    check!(case.leads(Input::ReplyNotSent, StageName::Closed, &actions));
    Ok(())
}

/// No setup waits for a device that is removed.
pub(crate) fn a_removed_device_ends_each_setup() -> Outcome {
    for (mut case, actions) in [
        (Case::accepted(), &DROPPED[..]),
        (Case::accepted_for_mpa(0), &DROPPED),
        (Case::shaking_hands(), &unsecured(Status::Aborted)),
        (Case::queued(), &DROPPED),
        (Case::requested(0), &WITHDRAWN),
    ] {
        check!(case.leads(Input::Leave, StageName::Closed, actions));
        check!(case.left().is_none());
    }
    Ok(())
}

/// An answer finds that the consumer owes one, or means nothing.
pub(crate) fn an_answer_that_comes_too_late() -> Outcome {
    let mut withdrawn = Case::requested(0);
    withdrawn.gives(Input::Leave);
    let mut accepted = Case::requested(0);
    accepted.gives(Input::Accept);
    accepted.gives(Input::ReplySent);
    for mut case in [withdrawn, accepted, Case::queued(), Case::accepted()] {
        for input in [Input::Accept, Input::Reject] {
            check!(case.gives(input).is_none());
        }
    }
    Ok(())
}
