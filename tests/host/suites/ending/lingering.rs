// SPDX-License-Identifier: GPL-2.0

//! How a closed connection lingers until the peer has all.

use super::*;

cases! { rsiw_iwarp_lingering:
    lingering_ends_by_fins
    lingering_ends_without_progress
    lingering_is_extended_twelve_times
    the_ack_of_our_fin_is_progress
    lingering_without_memory
    lingering_time_goes_on_when_the_fin_is_sent
}

/// The consumer is told at once; the connection ends when both FINs are there.
pub(crate) fn lingering_ends_by_fins() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    let actions = [
        Action::CountAborted,
        Action::Lose(Lost::Aborted),
        Action::Discard,
        Action::SendFin,
        Action::ReportClose(Status::Ok),
    ];
    check!(case.leads(Input::Flush, StageName::Linger, &actions));
    check!(case.leads(Input::FinSent, StageName::Linger, &[]));
    check!(case.leads(Input::PeerFin, StageName::Closed, &[Action::Detach]));
    // The other way round.
    let mut case = Case::lingering();
    check!(case.leads(Input::NoRoom, StageName::Linger, &[]));
    check!(case.leads(Input::PeerFin, StageName::Linger, &[Action::SendFin]));
    check!(case.leads(Input::NoRoom, StageName::Linger, &[]));
    check!(case.leads(Input::Room, StageName::Linger, &[Action::SendFin]));
    check!(case.leads(Input::FinSent, StageName::Closed, &[Action::Detach]));
    Ok(())
}

const RESET: [Action; 2] = [Action::Detach, Action::Reset];

/// The peer acknowledges nothing: 5 s.
pub(crate) fn lingering_ends_without_progress() -> Outcome {
    let mut case = Case::lingering();
    case.gives(Input::NoRoom);
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &RESET));
    Ok(())
}

/// The peer acknowledges a little again and again: 65 s in all.
pub(crate) fn lingering_is_extended_twelve_times() -> Outcome {
    let mut case = Case::lingering();
    let began = case.seen.now;
    case.gives(Input::FinSent);
    for _ in 0..12 {
        case.seen.acked += 1;
        check!(case.waits(5_000));
        check!(case.leads(Input::Timeout, StageName::Linger, &[]));
    }
    case.seen.acked += 1;
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &RESET));
    check!(case.seen.now - began == 65_000);
    Ok(())
}

/// What counts is what was acknowledged before the FIN was sent, as the peer may acknowledge the
/// FIN at once: a peer without a FIN of its own has 10 s.
pub(crate) fn the_ack_of_our_fin_is_progress() -> Outcome {
    let mut case = Case::lingering();
    case.seen.acked += 1;
    case.gives(Input::FinSent);
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Linger, &[]));
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &RESET));
    Ok(())
}

/// TCP has no memory: the rest is tried again every 20 ms, for 5 s without progress. What the peer
/// sends does not put off the next try.
pub(crate) fn lingering_without_memory() -> Outcome {
    let mut case = Case::lingering();
    let began = case.seen.now;
    while case.machine.stage() == StageName::Linger && case.seen.now < began + 10_000 {
        check!(case.leads(Input::TryAgain, StageName::Linger, &[]));
        case.seen.now += 10;
        check!(case.leads(Input::Room, StageName::Linger, &[Action::SendFin]));
        check!(case.leads(Input::TryAgain, StageName::Linger, &[]));
        check!(case.waits(10));
        case.gives(Input::Timeout);
    }
    check!(case.machine.stage() == StageName::Closed);
    check!(case.seen.now - began == 5_000);
    Ok(())
}

/// The 5 s do not begin anew with the FIN.
pub(crate) fn lingering_time_goes_on_when_the_fin_is_sent() -> Outcome {
    let mut case = Case::lingering();
    case.gives(Input::NoRoom);
    case.seen.now += 3_000;
    check!(case.leads(Input::Room, StageName::Linger, &[Action::SendFin]));
    case.gives(Input::FinSent);
    check!(case.waits(2_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &RESET));
    Ok(())
}
