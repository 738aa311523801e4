// SPDX-License-Identifier: GPL-2.0

//! How connections end, and how long each wait for it may take (Documentation/connection.md).

mod lingering;

use iwarp::conn::{timeout, Action, First, Input, Lost, Plan, Reply, StageName, Status};

use super::case::Case;
use super::Outcome;

cases! { rsiw_iwarp_ending:
    both_fins_after_the_peers
    both_fins_after_ours
    drained_before_the_peers_fin
    a_reset_is_told_as_one
    a_cut_stream_is_a_reset
    an_abort_overrides
    a_terminate_has_five_seconds
    a_terminate_is_not_cut_off_by_a_fin
    a_fault_and_a_fin_at_once
    draining_goes_on_while_the_peer_takes_data
    draining_ends_without_progress
    a_fin_waits_for_room
    a_fin_that_finds_no_room_for_long
    the_peers_fin_has_ten_seconds
    late_data_have_ten_seconds_more
    a_removed_device_waits_a_second
    an_rtr_has_ten_seconds
    an_rtr_that_came
    an_rtr_is_repeated_once
    an_rtr_that_was_answered
    silence_counts_from_the_ack_of_the_reply
    silence_without_a_limit
    a_close_within_the_silence
    a_timer_that_is_early
    a_timer_of_a_former_stage
    nothing_follows_the_end
}

impl Case {
    /// A connection that has no consumer, and no FIN.
    fn lingering() -> Self {
        let mut case = Self::streaming(First::Ours);
        case.seen.acked = 10;
        let _ = case.gives(Input::Flush);
        case
    }

    fn waits_for_nothing(&self) -> bool {
        self.left().is_none()
    }
}

/// What ends a connection that is reset, and how it is told.
const fn aborted(why: Lost, status: Status) -> [Action; 5] {
    [
        Action::CountAborted,
        Action::Detach,
        Action::Reset,
        Action::Lose(why),
        Action::ReportClose(status),
    ]
}

const TIMED_OUT: [Action; 5] = aborted(Lost::Aborted, Status::TimedOut);

const CLOSED: [Action; 4] = [
    Action::CountClosed,
    Action::Detach,
    Action::Lose(Lost::Closed),
    Action::ReportClose(Status::Ok),
];

/// The peer closes first: `DISCONNECT`, the queue pair sends the rest, `CLOSE`.
pub(crate) fn both_fins_after_the_peers() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    check!(case.waits_for_nothing());
    let drains = [Action::ReportDisconnect, Action::Drain];
    check!(case.leads(Input::PeerFin, StageName::Draining, &drains));
    check!(case.waits(30_000));
    check!(case.leads(Input::Drained, StageName::Draining, &[Action::SendFin]));
    check!(case.leads(Input::FinSent, StageName::Closed, &CLOSED));
    Ok(())
}

/// This end closes first: the `DISCONNECT` comes with the peer's FIN.
pub(crate) fn both_fins_after_ours() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    check!(case.leads(Input::Close, StageName::Draining, &[Action::Drain]));
    check!(case.gives(Input::Close).is_none());
    check!(case.leads(Input::Drained, StageName::Draining, &[Action::SendFin]));
    check!(case.leads(Input::FinSent, StageName::FinSent, &[]));
    let actions = [
        Action::ReportDisconnect,
        Action::CountClosed,
        Action::Detach,
        Action::Lose(Lost::Closed),
        Action::ReportClose(Status::Ok),
    ];
    check!(case.leads(Input::PeerFin, StageName::Closed, &actions));
    Ok(())
}

/// The peer's FIN comes while the queue pair sends: it is reported once, and the queue pair is told
/// again, as it need not wait for answers any more.
pub(crate) fn drained_before_the_peers_fin() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    let drains = [Action::ReportDisconnect, Action::Drain];
    check!(case.leads(Input::PeerFin, StageName::Draining, &drains));
    check!(case.gives(Input::PeerFin).is_none());
    case.gives(Input::Drained);
    check!(case.leads(Input::FinSent, StageName::Closed, &CLOSED));
    Ok(())
}

/// A reset or an error of TCP ends each stage, and `CLOSE` has the error.
pub(crate) fn a_reset_is_told_as_one() -> Outcome {
    let reset = aborted(Lost::Reset, Status::OfSocket);
    for inputs in [
        &[][..],
        &[Input::Close],
        &[Input::Close, Input::Drained, Input::FinSent],
    ] {
        let mut case = Case::streaming(First::Ours);
        for input in inputs {
            case.gives(*input);
        }
        check!(case.leads(Input::Broken, StageName::Closed, &reset));
    }
    Ok(())
}

/// A FIN within an FPDU is no orderly end.
pub(crate) fn a_cut_stream_is_a_reset() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    let reset = aborted(Lost::Reset, Status::Reset);
    check!(case.leads(Input::Cut, StageName::Closed, &reset));
    Ok(())
}

/// An abort ends each stage, that of a connection without consumer silently.
pub(crate) fn an_abort_overrides() -> Outcome {
    let aborted = aborted(Lost::Aborted, Status::Aborted);
    let mut case = Case::streaming(First::Rtr);
    check!(case.leads(Input::Abort, StageName::Closed, &aborted));
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::PeerFin);
    check!(case.leads(Input::Abort, StageName::Closed, &aborted));
    let reset = [Action::Detach, Action::Reset];
    check!(Case::lingering().leads(Input::Abort, StageName::Closed, &reset));
    Ok(())
}

/// A Terminate that finds no room: 5 s, then a reset.
pub(crate) fn a_terminate_has_five_seconds() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    check!(case.leads(Input::Fault, StageName::Streaming, &[]));
    case.seen.acked = 1000;
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// A fault in front of our FIN: the FIN waits for the Terminate, and for no longer than that has.
pub(crate) fn a_terminate_is_not_cut_off_by_a_fin() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    case.seen.now += 1000;
    check!(case.leads(Input::Fault, StageName::Draining, &[]));
    check!(case.leads(Input::Drained, StageName::Draining, &[]));
    check!(case.leads(Input::Leave, StageName::Draining, &[]));
    check!(case.gives(Input::FinSent).is_none());
    case.seen.acked = 1000;
    case.gives(Input::Fault);
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// A fault and the peer's FIN at once: the time is the Terminate's, not that of an orderly close.
pub(crate) fn a_fault_and_a_fin_at_once() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Fault);
    case.gives(Input::PeerFin);
    case.seen.acked = 1000;
    check!(case.waits(5_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// The peer acknowledges something every 30 s: the close goes on.
pub(crate) fn draining_goes_on_while_the_peer_takes_data() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    for _ in 0..20 {
        case.seen.acked += 1;
        check!(case.waits(30_000));
        check!(case.leads(Input::Timeout, StageName::Draining, &[]));
    }
    check!(case.waits(30_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// The peer acknowledges nothing: 30 s, whichever end closes first.
pub(crate) fn draining_ends_without_progress() -> Outcome {
    for first in [Input::Close, Input::PeerFin] {
        let mut case = Case::streaming(First::Ours);
        case.seen.acked = 77;
        case.gives(first);
        check!(case.waits(30_000));
        check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    }
    Ok(())
}

/// TLS has no room for the FIN: it is tried again every 20 ms.
pub(crate) fn a_fin_waits_for_room() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    case.gives(Input::Drained);
    for _ in 0..3 {
        check!(case.leads(Input::TryAgain, StageName::Draining, &[]));
        check!(case.waits(20));
        check!(case.leads(Input::Timeout, StageName::Draining, &[Action::SendFin]));
    }
    check!(case.leads(Input::FinSent, StageName::FinSent, &[]));
    check!(case.waits(10_000));
    Ok(())
}

/// The same for 30 s without progress: the end.
pub(crate) fn a_fin_that_finds_no_room_for_long() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    case.gives(Input::Drained);
    let mut tries = 0;
    while case.machine.stage() == StageName::Draining && tries < 2000 {
        case.gives(Input::TryAgain);
        check!(case.waits(20));
        case.gives(Input::Timeout);
        tries += 1;
    }
    check!(tries == timeout::DRAIN / timeout::SEND_AGAIN);
    check!(case.machine.stage() == StageName::Closed);
    Ok(())
}

/// A peer that sends neither data nor a FIN after ours: 10 s.
pub(crate) fn the_peers_fin_has_ten_seconds() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.seen.received = 500;
    case.gives(Input::Close);
    case.gives(Input::Drained);
    case.gives(Input::FinSent);
    check!(case.waits(10_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// A peer that still sends data has 10 s more each time.
pub(crate) fn late_data_have_ten_seconds_more() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    case.gives(Input::Drained);
    case.gives(Input::FinSent);
    for _ in 0..5 {
        case.seen.received += 1;
        check!(case.waits(10_000));
        check!(case.leads(Input::Timeout, StageName::FinSent, &[]));
    }
    check!(case.waits(10_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// While the device is removed, each half of an orderly close has a second, without extensions.
pub(crate) fn a_removed_device_waits_a_second() -> Outcome {
    let mut case = Case::streaming(First::Ours);
    check!(case.gives(Input::Leave).is_none());
    case.seen.leaving = true;
    case.gives(Input::Close);
    case.seen.acked = 1;
    check!(case.waits(1000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));

    // It begins to be removed within the close.
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    case.seen.now += 500;
    case.seen.leaving = true;
    check!(case.leads(Input::Leave, StageName::Draining, &[]));
    check!(case.waits(1000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));

    // Behind our FIN.
    let mut case = Case::streaming(First::Ours);
    case.gives(Input::Close);
    case.gives(Input::Drained);
    case.gives(Input::FinSent);
    case.seen.leaving = true;
    check!(case.leads(Input::Leave, StageName::FinSent, &[]));
    case.seen.received = 1;
    check!(case.waits(1000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// An RTR that was agreed on and does not come: 10 s.
pub(crate) fn an_rtr_has_ten_seconds() -> Outcome {
    let mut case = Case::streaming(First::Rtr);
    check!(case.waits(10_000));
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// With an RTR the peer may say nothing more for as long as it likes.
pub(crate) fn an_rtr_that_came() -> Outcome {
    let mut case = Case::streaming(First::Rtr);
    case.seen.peer_started = true;
    check!(case.waits(10_000));
    check!(case.gives(Input::Timeout).is_none());
    check!(case.waits_for_nothing() && case.machine.stage() == StageName::Streaming);
    Ok(())
}

/// A peer that says nothing may have missed the RTR: it is repeated, once.
pub(crate) fn an_rtr_is_repeated_once() -> Outcome {
    let mut case = Case::streaming(First::OurRtr(0));
    check!(case.waits(100));
    check!(case.leads(Input::Timeout, StageName::Streaming, &[Action::RepeatRtr]));
    check!(case.waits_for_nothing());
    // Never, if the setting says so.
    let mut case = Case::of(Plan::new(2, false, false, 0));
    for input in [Input::Connected, Input::Accepted, Input::StartedWithRtr] {
        case.gives(input);
    }
    check!(case.waits_for_nothing());
    Ok(())
}

/// Bytes that came since the RTR was sent are an answer, those of the Reply before it are none.
pub(crate) fn an_rtr_that_was_answered() -> Outcome {
    for (received, repeats) in [(24, true), (25, false)] {
        let mut case = Case::streaming(First::OurRtr(24));
        case.seen.received = received;
        check!(case.waits(100));
        check!(case.gives(Input::Timeout).is_some() == repeats);
    }
    Ok(())
}

fn silent() -> Case {
    Case::streaming(First::Theirs {
        wait: 200,
        reply: Reply::Sent(24),
    })
}

/// A responder may send 200 ms after the peer has had the Reply, however late that was.
pub(crate) fn silence_counts_from_the_ack_of_the_reply() -> Outcome {
    let mut case = silent();
    case.seen.acked = 23;
    for _ in 0..10 {
        check!(case.waits(200));
        check!(case.leads(Input::Timeout, StageName::Streaming, &[]));
    }
    (case.seen.acked, case.seen.acked_ago) = (24, 50);
    case.seen.now += 200;
    check!(case.leads(Input::Timeout, StageName::Streaming, &[]));
    // Later acknowledgments do not start the time again.
    case.seen.acked_ago = 0;
    check!(case.waits(150));
    check!(case.leads(Input::Timeout, StageName::Streaming, &[Action::MayStart]));
    check!(case.waits_for_nothing());
    // The peer has sent something.
    let mut case = silent();
    case.seen.peer_started = true;
    check!(case.waits(200));
    check!(case.gives(Input::Timeout).is_none() && case.waits_for_nothing());
    Ok(())
}

/// Without the wait this end never begins; but what is posted is sent when it closes.
pub(crate) fn silence_without_a_limit() -> Outcome {
    let mut case = Case::streaming(First::Theirs {
        wait: 0,
        reply: Reply::Sent(24),
    });
    check!(case.waits_for_nothing());
    check!(case.leads(Input::Close, StageName::Draining, &[Action::Drain]));
    check!(case.waits(30_000));
    Ok(())
}

/// A consumer that disconnects before it may send is drained when it may.
pub(crate) fn a_close_within_the_silence() -> Outcome {
    let mut case = silent();
    check!(case.leads(Input::Close, StageName::Draining, &[Action::Drain]));
    check!(case.waits(200));
    check!(case.leads(Input::Timeout, StageName::Draining, &[]));
    (case.seen.acked, case.seen.acked_ago) = (24, 10);
    check!(case.waits(200));
    check!(case.leads(Input::Timeout, StageName::Draining, &[]));
    check!(case.waits(190));
    check!(case.leads(Input::Timeout, StageName::Draining, &[Action::MayStart]));
    check!(case.waits(30_000));

    // It may at once.
    let mut case = silent();
    (case.seen.acked, case.seen.acked_ago) = (24, 300);
    check!(case.leads(
        Input::Close,
        StageName::Draining,
        &[Action::MayStart, Action::Drain]
    ));
    check!(case.waits(30_000));

    // The peer never acknowledges the Reply.
    let mut case = silent();
    case.gives(Input::Close);
    let began = case.seen.now;
    while case.machine.stage() == StageName::Draining && case.seen.now < began + 100_000 {
        check!(case.machine.deadline().is_some());
        case.seen.now += 200;
        case.gives(Input::Timeout);
    }
    check!(case.seen.now - began < 62_000);
    Ok(())
}

/// A timer may be up to 20 ms early. One that is earlier means nothing, and the deadline stays, for
/// which it is set again.
pub(crate) fn a_timer_that_is_early() -> Outcome {
    let mut case = Case::streaming(First::Rtr);
    let end = case.machine.deadline();
    case.seen.now += 9_979;
    check!(case.gives(Input::Timeout).is_none() && case.machine.deadline() == end);
    case.seen.now += 1;
    check!(case.leads(Input::Timeout, StageName::Closed, &TIMED_OUT));
    Ok(())
}

/// The timer of a stage that is over means nothing to the next one.
pub(crate) fn a_timer_of_a_former_stage() -> Outcome {
    let mut case = Case::streaming(First::Rtr);
    case.seen.now += 10_000;
    case.gives(Input::PeerFin);
    check!(case.gives(Input::Timeout).is_none());
    check!(case.waits(30_000));
    Ok(())
}

/// After the end no input means anything.
pub(crate) fn nothing_follows_the_end() -> Outcome {
    for end in [Input::Abort, Input::Broken, Input::Cut] {
        let mut case = Case::streaming(First::Ours);
        case.gives(end);
        check!(case.waits_for_nothing());
        for input in Input::ALL {
            check!(case.gives(*input).is_none());
            check!(case.machine.stage() == StageName::Closed);
        }
    }
    Ok(())
}
