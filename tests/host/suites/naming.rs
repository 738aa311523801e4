// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that find each other by name (`iwarp::conn::names`), and what their connections do
//! otherwise than those of the RDMA CM.

use iwarp::conn::{
    names::{Call, Names, QpName, Refusal, Role, Verdict, CALL_LEN},
    rnr::RnrRetry,
    timeout, Action, Input, Lost, Machine, Plan, Report, Rule, Seen, SetUp, StageName, Status,
};

use iwarp::TaggedOffset;

use super::Outcome;

cases! { rsiw_iwarp_naming:
    the_lower_name_connects
    a_call_of_known_bytes
    what_is_no_call
    a_call_for_each_other
    a_call_from_elsewhere
    a_call_in_the_wrong_direction
    a_call_for_another
    a_call_that_waits
    calls_come_ever_more_rarely
    a_call_is_admitted
    a_call_waits_for_its_queue_pair
    a_call_that_is_refused
    a_call_makes_room
    a_call_that_is_lost
    the_peers_fin_ends_the_connection
    a_call_asks_for_nothing_less
    one_that_is_its_own_peer_asks_nobody
    tries_of_a_send_are_told
    the_time_of_a_send_without_a_receive
}

const LOW: QpName = QpName {
    gid: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 1],
    qpn: 0x010203,
};
const HIGH: QpName = QpName {
    gid: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 7, 0, 2],
    qpn: 5,
};
/// As the called end has them.
const NAMES: Names = Names {
    ours: HIGH,
    theirs: LOW,
};
const CALL: Call = Call {
    to: HIGH,
    from: LOW,
};

pub(crate) fn the_lower_name_connects() -> Outcome {
    check_eq!(NAMES.role(), Role::Responder);
    let other = Names {
        ours: LOW,
        theirs: HIGH,
    };
    check_eq!(other.role(), Role::Initiator);
    check_eq!(other.call(), CALL);
    // At one address the number decides.
    let beside = QpName { qpn: 7, ..LOW };
    let names = Names {
        ours: beside,
        theirs: LOW,
    };
    check_eq!(names.role(), Role::Initiator);
    let itself = Names {
        ours: LOW,
        theirs: LOW,
    };
    check_eq!(itself.role(), Role::Both);
    Ok(())
}

pub(crate) fn a_call_of_known_bytes() -> Outcome {
    let bytes = CALL.to_bytes();
    check_eq!(bytes[..8], *b"rsRC\x02\x00\x00\x00");
    check_eq!(bytes[8..16], [0, 0, 0, 5, 0, 1, 2, 3]);
    check_eq!(bytes[16..32], HIGH.gid);
    check_eq!(bytes[32..], LOW.gid);
    check_eq!(Call::read(&bytes), Some(CALL));
    Ok(())
}

pub(crate) fn what_is_no_call() -> Outcome {
    let bytes = CALL.to_bytes();
    check!(Call::read(&[]).is_none());
    check!(Call::read(&bytes[..CALL_LEN - 1]).is_none());
    let mut long = [0; CALL_LEN + 1];
    for (to, from) in long.iter_mut().zip(bytes) {
        *to = from;
    }
    check!(Call::read(&long).is_none());
    // Another magic, version, and reserved bytes. Flags are ignored.
    for (at, known) in [
        (0, false),
        (3, false),
        (4, false),
        (5, true),
        (6, false),
        (7, false),
    ] {
        let mut other = bytes;
        other[at] ^= 0x80;
        check_eq!(Call::read(&other).is_some(), known);
    }
    Ok(())
}

pub(crate) fn a_call_for_each_other() -> Outcome {
    let verdict = CALL.judge(&HIGH.gid, &LOW.gid, Some(&NAMES));
    check_eq!(verdict, Verdict::Admit);
    Ok(())
}

pub(crate) fn a_call_from_elsewhere() -> Outcome {
    let refused = Verdict::Refuse(Refusal::Address);
    let other = [9; 16];
    check_eq!(CALL.judge(&HIGH.gid, &other, Some(&NAMES)), refused);
    check_eq!(CALL.judge(&other, &LOW.gid, Some(&NAMES)), refused);
    // Nor does it wait.
    check_eq!(CALL.judge(&HIGH.gid, &other, None), refused);
    Ok(())
}

pub(crate) fn a_call_in_the_wrong_direction() -> Outcome {
    let call = Call {
        to: LOW,
        from: HIGH,
    };
    let names = Names {
        ours: LOW,
        theirs: HIGH,
    };
    let refused = Verdict::Refuse(Refusal::Role);
    check_eq!(call.judge(&LOW.gid, &HIGH.gid, Some(&names)), refused);
    check_eq!(call.judge(&LOW.gid, &HIGH.gid, None), refused);
    Ok(())
}

pub(crate) fn a_call_for_another() -> Outcome {
    let refused = Verdict::Refuse(Refusal::Name);
    let of_another = Names {
        theirs: QpName { qpn: 9, ..LOW },
        ..NAMES
    };
    check_eq!(CALL.judge(&HIGH.gid, &LOW.gid, Some(&of_another)), refused);
    // The number is that of a queue pair with another address.
    let elsewhere = Names {
        ours: QpName {
            gid: [8; 16],
            ..HIGH
        },
        ..NAMES
    };
    check_eq!(CALL.judge(&HIGH.gid, &LOW.gid, Some(&elsewhere)), refused);
    Ok(())
}

pub(crate) fn a_call_that_waits() -> Outcome {
    check_eq!(CALL.judge(&HIGH.gid, &LOW.gid, None), Verdict::Park);
    // It does not wait for longer than the caller does.
    check!(timeout::PARKED < timeout::REPLY);
    Ok(())
}

pub(crate) fn calls_come_ever_more_rarely() -> Outcome {
    check_eq!(timeout::call_again(0), 20);
    check_eq!(timeout::call_again(1), 40);
    check_eq!(timeout::call_again(5), 640);
    check_eq!(timeout::call_again(6), 1000);
    check_eq!(timeout::call_again(u32::MAX), 1000);
    Ok(())
}

/// Gives inputs to a connection that a listener has accepted; returns the last one's rule.
fn called(inputs: &[Input]) -> (Machine, Option<&'static Rule>) {
    let seen = Seen::default();
    let mut machine = Machine::await_request(0, &seen);
    let mut rule = None;
    for input in inputs {
        rule = machine.handle(*input, &seen);
    }
    (machine, rule)
}

const ADMIT: Action = Action::SetUp(SetUp::Admit);

pub(crate) fn a_call_is_admitted() -> Outcome {
    let (machine, rule) = called(&[Input::Called]);
    check_eq!(machine.stage(), StageName::Parked);
    check!(rule.is_some_and(|rule| rule.actions == [Action::LeaveOrder, ADMIT, Action::LookAgain]));
    let (machine, rule) = called(&[Input::Called, Input::ReplySentForRtr]);
    check_eq!(machine.stage(), StageName::Streaming);
    let actions = [Action::FreeSlot, Action::Watch, Action::GiveStream];
    check!(rule.is_some_and(|rule| rule.actions == actions));
    // The caller owes an RTR.
    check_eq!(machine.deadline(), Some(i64::from(timeout::RTR)));
    Ok(())
}

pub(crate) fn a_call_waits_for_its_queue_pair() -> Outcome {
    let (machine, rule) = called(&[Input::Called, Input::NotExpected, Input::Turn]);
    check_eq!(machine.stage(), StageName::Parked);
    check!(rule.is_some_and(|rule| rule.actions == [ADMIT]));
    // To look again does not begin the time anew.
    let mut machine = machine;
    let late = Seen {
        now: i64::from(timeout::PARKED),
        ..Seen::default()
    };
    check!(machine.handle(Input::NotExpected, &late).is_some());
    let rule = machine.handle(Input::Timeout, &late);
    let actions = [Action::CountDropped, Action::SetUp(SetUp::SendRejection)];
    check!(rule.is_some_and(|rule| rule.actions == actions));
    check!(machine.handle(Input::RejectionSent, &late).is_some());
    check_eq!(machine.stage(), StageName::Linger);
    Ok(())
}

pub(crate) fn a_call_that_is_refused() -> Outcome {
    for why in [Input::NotAdmitted, Input::NotAttached] {
        let (machine, rule) = called(&[Input::Called, why]);
        let actions = [Action::CountDropped, Action::SetUp(SetUp::SendRejection)];
        check!(rule.is_some_and(|rule| rule.actions == actions));
        check_eq!(machine.stage(), StageName::Parked);
    }
    // The queue pair may call for another connection only if it has not started.
    let (machine, rule) = called(&[Input::Called, Input::CannotStart]);
    check_eq!(machine.stage(), StageName::Closed);
    let lost = Action::Lose(Lost::Handshake);
    check!(rule.is_some_and(|rule| rule.actions.contains(&lost)));
    let (machine, rule) = called(&[Input::Called, Input::ReplyNotSent]);
    check_eq!(machine.stage(), StageName::Closed);
    let lost = Action::Lose(Lost::Call);
    check!(rule.is_some_and(|rule| rule.actions.contains(&lost)));
    Ok(())
}

pub(crate) fn a_call_makes_room() -> Outcome {
    for input in [
        Input::GiveWay,
        Input::Unlistened,
        Input::HungUp,
        Input::Leave,
    ] {
        let (machine, rule) = called(&[Input::Called, Input::NotExpected, input]);
        check_eq!(machine.stage(), StageName::Closed);
        check!(rule.is_some_and(|rule| rule.actions.contains(&Action::FreeSlot)));
    }
    Ok(())
}

/// The end of a call's connection, of which nothing has come, or something has.
pub(crate) fn a_call_that_is_lost() -> Outcome {
    let late = Seen {
        now: i64::from(timeout::RTR),
        ..Seen::default()
    };
    for (input, more) in [
        (Input::Broken, 0),
        (Input::PeerGone, 1),
        (Input::Timeout, 0),
    ] {
        let seen = Seen {
            received: more,
            ..late
        };
        let (mut machine, _) = called(&[Input::Called, Input::ReplySentForRtr]);
        let rule = machine.handle(input, &seen);
        let actions = [
            Action::CountAborted,
            Action::Detach,
            Action::Reset,
            Action::Lose(Lost::Call),
            Action::ReportClose(Status::Reset),
        ];
        check!(rule.is_some_and(|rule| rule.actions == actions));
        check_eq!(machine.stage(), StageName::Closed);
    }
    let part = Seen {
        received: 1,
        ..late
    };
    let whole = Seen {
        received: 20,
        peer_started: true,
        ..late
    };
    for (input, seen) in [
        (Input::Broken, part),
        (Input::Cut, part),
        (Input::Timeout, part),
        (Input::Broken, whole),
        (Input::PeerGone, whole),
        // This end gives it up.
        (Input::Abort, late),
        (Input::Flush, late),
    ] {
        let (mut machine, _) = called(&[Input::Called, Input::ReplySentForRtr]);
        let rule = machine.handle(input, &seen);
        let lost = Action::Lose(Lost::Call);
        check!(rule.is_some_and(|rule| !rule.actions.contains(&lost)));
    }
    // A fault of this end may have failed requests.
    let (mut machine, _) = called(&[Input::Called, Input::ReplySentForRtr, Input::Fault]);
    let rule = machine.handle(Input::Broken, &Seen::default());
    check!(rule.is_some_and(|rule| rule.actions.contains(&Action::Lose(Lost::Reset))));
    Ok(())
}

pub(crate) fn the_peers_fin_ends_the_connection() -> Outcome {
    let seen = Seen {
        peer_started: true,
        ..Seen::default()
    };
    let (mut machine, _) = called(&[Input::Called, Input::ReplySentForRtr]);
    let rule = machine.handle(Input::PeerGone, &seen);
    let actions = [
        Action::CountClosed,
        Action::Detach,
        Action::Reset,
        Action::Lose(Lost::Closed),
        Action::ReportClose(Status::Ok),
    ];
    check!(rule.is_some_and(|rule| rule.actions == actions));
    check_eq!(machine.stage(), StageName::Closed);
    Ok(())
}

/// The answers after which an attempt of the RDMA CM asks for less.
pub(crate) fn a_call_asks_for_nothing_less() -> Outcome {
    let seen = Seen::default();
    for (input, status) in [
        (Input::HungUp, Report::Failed(Status::OfSocket)),
        (Input::OldFormat, Report::Failed(Status::Protocol)),
        (Input::OfferRejected, Report::Answered(Status::Refused)),
        (Input::Rejected, Report::Answered(Status::Refused)),
    ] {
        let plan = Plan::new(2, true, false, 0).exactly();
        let mut machine = Machine::connecting(plan, &seen);
        check!(machine.handle(Input::Connected, &seen).is_some());
        let rule = machine.handle(input, &seen);
        let report = Action::ReportReply(status);
        check!(rule.is_some_and(|rule| rule.actions.last() == Some(&report)));
        check_eq!(machine.stage(), StageName::Closed);
    }
    Ok(())
}

/// Over TLS or not: there is nobody to agree with.
pub(crate) fn one_that_is_its_own_peer_asks_nobody() -> Outcome {
    let seen = Seen::default();
    for secure in [false, true] {
        let plan = Plan::new(2, true, secure, 0).exactly().to_itself();
        let mut machine = Machine::connecting(plan, &seen);
        let rule = machine.handle(Input::Connected, &seen);
        let actions = [
            Action::SetUp(SetUp::FreePlace),
            Action::SetUp(SetUp::StartQueuePair),
        ];
        check!(rule.is_some_and(|rule| rule.actions == actions));
        check!(machine.handle(Input::Started, &seen).is_some());
        check_eq!(machine.stage(), StageName::Streaming);
    }
    Ok(())
}

pub(crate) fn tries_of_a_send_are_told() -> Outcome {
    check_eq!(
        RnrRetry::new(3).to_offset(),
        TaggedOffset(0x7273_5243_0000_0003)
    );
    for number in 0..=7 {
        let told = RnrRetry::new(number);
        check_eq!(told.number(), number);
        check_eq!(RnrRetry::from_offset(told.to_offset()), Some(told));
    }
    check_eq!(RnrRetry::new(8), RnrRetry::FOR_EVER);
    // What tells nothing: the Reads of peers that know nothing of it, a number that is none, and
    // each other bit.
    check!(RnrRetry::from_offset(TaggedOffset(0)).is_none());
    let offset = RnrRetry::new(7).to_offset().0;
    check!(RnrRetry::from_offset(TaggedOffset(offset + 1)).is_none());
    for bit in 3..64 {
        check!(RnrRetry::from_offset(TaggedOffset(offset ^ (1 << bit))).is_none());
    }
    Ok(())
}

/// InfiniBand's table of times, in hundredths of a millisecond.
pub(crate) fn the_time_of_a_send_without_a_receive() -> Outcome {
    let table = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    for (code, time) in (0..).zip(table) {
        check_eq!(RnrRetry::new(0).wait_us(code), Some(0));
        check_eq!(RnrRetry::new(1).wait_us(code), Some(time * 10));
        check_eq!(RnrRetry::new(6).wait_us(code), Some(time * 60));
        check_eq!(RnrRetry::FOR_EVER.wait_us(code), None);
        // Five bits.
        check_eq!(RnrRetry::new(1).wait_us(code + 32), Some(time * 10));
    }
    Ok(())
}
