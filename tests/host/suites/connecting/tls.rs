// SPDX-License-Identifier: GPL-2.0

//! How an initiator connects with TLS.

use super::*;

cases! { rsiw_iwarp_connecting_tls:
    tls_before_the_request
    tls_that_fails
    tls_has_twenty_seconds
    tls_without_room_is_asked_for_again
    tls_is_never_left
    a_process_that_ends_within_tls
    turns_have_two_minutes
    turns_of_a_repeated_attempt_share_their_time
    answers_within_tls
}

/// The place for a handshake is kept until that is made.
pub(crate) fn tls_before_the_request() -> Outcome {
    let mut case = Case::of(Plan::new(2, true, true, 100));
    let starts = [Action::DetachForTls, Action::SetUp(SetUp::StartTls)];
    check!(case.leads(Input::Connected, StageName::Securing, &starts));
    check!(case.leads(Input::TlsStarted, StageName::Securing, &[]));
    check!(case.leads(
        Input::TlsDone,
        StageName::Securing,
        &[Action::SetUp(SetUp::AttachTls)]
    ));
    check!(case.leads(Input::Secured, StageName::AwaitReply, &REQUEST));
    check!(case.left() == Some(1000));
    Ok(())
}

/// What ends an attempt within its handshake.
const fn unsecured(why: Status, status: Status) -> [Action; 5] {
    [
        Action::SetUp(SetUp::FailTls(why)),
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Handshake),
        Action::ReportReply(Report::Failed(status)),
    ]
}

/// A handshake that fails, or that cannot be begun or used, is told by its error.
pub(crate) fn tls_that_fails() -> Outcome {
    let actions = unsecured(Status::OfSocket, Status::OfTls);
    let mut case = Case::securing();
    check!(case.leads(Input::TlsFailed, StageName::Closed, &actions));
    let mut case = Case::securing();
    case.gives(Input::TlsDone);
    check!(case.leads(Input::TlsFailed, StageName::Closed, &actions));
    let mut case = Case::of(Plan::new(2, true, true, 100));
    case.gives(Input::Connected);
    check!(case.leads(Input::TlsFailed, StageName::Closed, &actions));
    let mut case = Case::securing();
    let actions = unsecured(Status::Aborted, Status::Aborted);
    check!(case.leads(Input::Leave, StageName::Closed, &actions));
    Ok(())
}

/// tlshd may be stopped: 20 s.
pub(crate) fn tls_has_twenty_seconds() -> Outcome {
    let mut case = Case::securing();
    check!((19_980..=20_000).contains(&case.passes(0)));
    check!(case.stage() == StageName::Closed);
    Ok(())
}

/// The kernel has no room for a handshake: asked again after 50 ms, for 20 s.
pub(crate) fn tls_without_room_is_asked_for_again() -> Outcome {
    let mut case = Case::of(Plan::new(2, true, true, 100));
    case.gives(Input::Connected);
    let (began, mut tries) = (case.seen.now, 0);
    while case.stage() == StageName::Securing && tries < 1000 {
        check!(case.leads(Input::TryAgain, StageName::Securing, &[]));
        check!(case.left().is_some_and(|left| left <= 50));
        case.seen.now = case.machine.deadline().unwrap_or(0);
        case.gives(Input::Timeout);
        tries += 1;
    }
    check!((19_900..=20_000).contains(&(case.seen.now - began)));
    // There is room after all.
    let mut case = Case::of(Plan::new(2, true, true, 100));
    case.gives(Input::Connected);
    case.gives(Input::TryAgain);
    case.seen.now += 50;
    check!(case.leads(
        Input::Timeout,
        StageName::Securing,
        &[Action::SetUp(SetUp::StartTls)]
    ));
    case.gives(Input::TlsStarted);
    check!(case.left() == Some(1000));
    Ok(())
}

/// A peer that hangs up within TLS does not accept this end. Nothing is tried without TLS, or in
/// the format of revision 1.
pub(crate) fn tls_is_never_left() -> Outcome {
    let mut case = Case::securing();
    case.gives(Input::TlsDone);
    case.gives(Input::Secured);
    check!(case.leads(Input::HungUp, StageName::Closed, &failed(Status::Access)));
    Ok(())
}

/// A process that has ended is noticed within a second.
pub(crate) fn a_process_that_ends_within_tls() -> Outcome {
    let mut case = Case::securing();
    case.seen.orphaned = true;
    case.seen.now += 1000;
    let actions = unsecured(Status::Aborted, Status::Aborted);
    check!(case.leads(Input::Timeout, StageName::Closed, &actions));
    Ok(())
}

/// An attempt waits for its turn, at most two minutes; then TCP begins to connect.
pub(crate) fn turns_have_two_minutes() -> Outcome {
    let plan = Plan::new(2, true, true, 100);
    let mut case = Case::waiting_for_turn(plan);
    check!((119_980..=120_000).contains(&case.passes(0)));
    check!(case.stage() == StageName::Closed);
    let mut case = Case::waiting_for_turn(plan);
    check!(case.leads(
        Input::Turn,
        StageName::Connecting,
        &[Action::SetUp(SetUp::Connect)]
    ));
    check!(case.leads(Input::Broken, StageName::Closed, &failed(Status::OfSocket)));
    Ok(())
}

/// A repeated attempt has what is left of these two minutes.
pub(crate) fn turns_of_a_repeated_attempt_share_their_time() -> Outcome {
    let mut case = Case::waiting_for_turn(Plan::new(2, true, true, 100));
    case.seen.now += 100_000;
    case.gives(Input::Turn);
    case.gives(Input::Refused);
    case.seen.now += 20;
    case.gives(Input::Timeout);
    let (mut case, plan) = case.again()?;
    case.machine = Machine::await_turn(plan, &case.seen);
    check!(case.passes(0) <= 20_000);
    Ok(())
}

/// Within TLS there are no markers and no revision 1, and nothing is tried again in the clear.
pub(crate) fn answers_within_tls() -> Outcome {
    let plan = Plan::new(2, true, true, 100);
    let depths = [0, 4, 0, 4];
    check!(answer(&plan, &Raw::reply(0x50, 2, &depths))? == Input::Accepted);
    check!(answer(&plan, &Raw::reply(0xd0, 2, &depths))? == Input::BadReply);
    check!(answer(&plan, &Raw::reply(0x40, 1, b""))? == Input::BadReply);
    Ok(())
}
