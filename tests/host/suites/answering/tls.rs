// SPDX-License-Identifier: GPL-2.0

//! How a responder takes a connection with TLS.

use super::*;

cases! { rsiw_iwarp_answering_tls:
    tls_before_the_peers_request
    a_handshake_waits_for_its_turn
    a_handshake_has_twenty_seconds_with_its_turn
    a_handshake_without_room_is_asked_for_again
    a_handshake_that_fails
    a_turn_that_cannot_be_waited_for
    a_request_behind_tls_has_its_time
}

/// The place for the handshake is kept until that is made.
pub(crate) fn tls_before_the_peers_request() -> Outcome {
    let mut case = Case::accepted();
    let begins = [
        Action::LeaveOrder,
        Action::DetachForTls,
        Action::SetUp(SetUp::AwaitPlace),
    ];
    check!(case.leads(Input::TlsBegins, StageName::AwaitTls, &begins));
    let start = set_up(SetUp::StartTls);
    check!(case.leads(Input::Turn, StageName::AwaitTls, &start));
    check!(case.leads(Input::TlsStarted, StageName::AwaitTls, &[]));
    check!(case.left() == Some(1000));
    check!(case.gives(Input::Turn).is_none());
    let attach = set_up(SetUp::AttachTls);
    check!(case.leads(Input::TlsDone, StageName::AwaitTls, &attach));
    let free = set_up(SetUp::FreePlace);
    check!(case.leads(Input::Secured, StageName::AwaitRequest, &free));
    Ok(())
}

/// No handshake is asked for before its turn.
pub(crate) fn a_handshake_waits_for_its_turn() -> Outcome {
    let mut case = Case::accepted();
    case.gives(Input::TlsBegins);
    for _ in 0..10 {
        check!(case.waits(1000));
        check!(case.leads(Input::Timeout, StageName::AwaitTls, &[]));
    }
    check!(case.leads(Input::Turn, StageName::AwaitTls, &set_up(SetUp::StartTls)));
    Ok(())
}

/// Turn and handshake have 20 s together, however late the looks are.
pub(crate) fn a_handshake_has_twenty_seconds_with_its_turn() -> Outcome {
    let mut case = Case::accepted();
    case.gives(Input::TlsBegins);
    case.seen.now += 15_000;
    case.gives(Input::Turn);
    case.gives(Input::TlsStarted);
    check!((4_980..=5_000).contains(&case.passes(0)));
    check!(case.stage() == StageName::Closed);
    let mut case = Case::accepted();
    case.gives(Input::TlsBegins);
    check!((19_980..=20_500).contains(&case.passes(500)));
    let mut case = Case::shaking_hands();
    case.seen.now += 20_000;
    let late = unsecured(Status::TimedOut);
    check!(case.leads(Input::Timeout, StageName::Closed, &late));
    Ok(())
}

/// The kernel has no room for a handshake: asked again after 50 ms.
pub(crate) fn a_handshake_without_room_is_asked_for_again() -> Outcome {
    let mut case = Case::accepted();
    case.gives(Input::TlsBegins);
    case.gives(Input::Turn);
    let start = set_up(SetUp::StartTls);
    for _ in 0..10 {
        check!(case.leads(Input::TryAgain, StageName::AwaitTls, &[]));
        check!(case.waits(50));
        check!(case.leads(Input::Timeout, StageName::AwaitTls, &start));
    }
    case.gives(Input::TlsStarted);
    check!(case.left() == Some(1000));
    check!(case.gives(Input::TryAgain).is_none());
    Ok(())
}

/// A handshake that fails, that cannot be begun or used, or that this end gives up.
pub(crate) fn a_handshake_that_fails() -> Outcome {
    let failed = unsecured(Status::OfSocket);
    check!(Case::shaking_hands().leads(Input::TlsFailed, StageName::Closed, &failed));
    let mut case = Case::shaking_hands();
    case.gives(Input::TlsDone);
    check!(case.leads(Input::TlsFailed, StageName::Closed, &failed));
    let mut case = Case::accepted();
    case.gives(Input::TlsBegins);
    case.gives(Input::Turn);
    check!(case.leads(Input::TlsFailed, StageName::Closed, &failed));
    let aborted = unsecured(Status::Aborted);
    for input in [Input::Abort, Input::Close, Input::Flush, Input::Leave] {
        check!(Case::shaking_hands().leads(input, StageName::Closed, &aborted));
    }
    Ok(())
}

/// Without memory for the wait there is no connection, and no handshake that has failed.
pub(crate) fn a_turn_that_cannot_be_waited_for() -> Outcome {
    let mut case = Case::accepted();
    case.gives(Input::TlsBegins);
    check!(case.leads(Input::Broken, StageName::Closed, &DROPPED));
    Ok(())
}

/// Behind the handshake the Request has 10 s of its own.
pub(crate) fn a_request_behind_tls_has_its_time() -> Outcome {
    let mut case = Case::shaking_hands();
    case.seen.now += 19_000;
    case.gives(Input::TlsDone);
    case.gives(Input::Secured);
    check!(case.waits(10_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &DROPPED));
    Ok(())
}
