// SPDX-License-Identifier: GPL-2.0

//! Connections in virtual time: how long peers that are silent, slow or gone may keep one.

use iwarp::conn::{Action, First, Input, Lost, Plan, Report, SetUp, StageName, Status};
use iwarp_sim::attempt::{self, Fate};
use iwarp_sim::conn::{Net, SILENT};
use iwarp_sim::incoming;

/// More bytes than all buffers hold.
const FLOOD: u64 = 10_000;

/// The connection of an end ends after `ms` milliseconds, and its consumer is told so.
#[track_caller]
fn ends_after(net: &mut Net, ms: i64, status: Status) {
    let began = net.now;
    assert_eq!(net.run_to_end(200_000), Some(ms));
    assert_eq!(net.ends[0].closes(), [(began + ms, status)]);
}

/// A peer that reads nothing any more, and a consumer that has posted more than finds room.
fn stubborn() -> Net {
    let mut net = Net::peer(First::Ours);
    net.ends[1].reads = false;
    net.post(0, FLOOD);
    net.run(1000);
    net
}

#[test]
fn two_ends_close_in_order() {
    for closes_first in [0, 1] {
        let mut net = Net::pair([First::Ours, First::Rtr]);
        net.post(0, 5000);
        net.post(1, 5000);
        net.run(1000);
        net.post(0, 5000);
        net.input(closes_first, Input::Close);
        assert!(net.run_to_end(1000).is_some());
        for end in &net.ends {
            assert_eq!(end.closes().len(), 1);
            assert_eq!(end.closes()[0].1, Status::Ok);
            assert!(end
                .log
                .iter()
                .any(|(_, a)| *a == Action::Lose(Lost::Closed)));
        }
        // Nothing that was posted is lost.
        assert_eq!((net.ends[1].read, net.ends[0].read), (10_000, 5_000));
    }
}

#[test]
fn both_close_at_once() {
    let mut net = Net::pair([First::Ours, First::Rtr]);
    net.post(0, 5000);
    net.run(1000);
    net.input(0, Input::Close);
    net.input(1, Input::Close);
    assert!(net.run_to_end(1000).is_some());
    assert!(net.ends.iter().all(|end| end.closes()[0].1 == Status::Ok));
}

#[test]
fn terminate_not_sent() {
    let mut net = stubborn();
    net.fault(0);
    ends_after(&mut net, 5_000, Status::TimedOut);
}

#[test]
fn a_terminate_is_sent_and_read() {
    let mut net = Net::pair([First::Ours, First::Rtr]);
    net.post(0, 100);
    net.run(100);
    let before = net.ends[0].read;
    net.fault(1);
    net.run(100);
    assert_eq!(net.ends[0].read, before + 28);
    assert!(net.is_over());
}

#[test]
fn draining() {
    let mut net = stubborn();
    net.input(0, Input::Close);
    ends_after(&mut net, 30_000, Status::TimedOut);
    net.run(net.delay);
    assert!(net.ends[1].broken);
}

#[test]
fn draining_for_us() {
    let mut net = stubborn();
    net.fin(1);
    net.run(2);
    assert_eq!(net.stage(0), StageName::Draining);
    assert_eq!(net.run_to_end(100_000), Some(29_999));
    assert_eq!(
        net.ends[0]
            .log
            .iter()
            .filter(|(_, a)| *a == Action::ReportDisconnect)
            .count(),
        1
    );
}

#[test]
fn no_fin() {
    let mut net = Net::peer(First::Ours);
    net.input(0, Input::Close);
    net.run(1);
    assert_eq!(net.stage(0), StageName::FinSent);
    assert_eq!(net.run_to_end(100_000), Some(9_999));
    assert!(net.ends[1].eof);
}

#[test]
fn late_data() {
    let mut net = Net::peer(First::Ours);
    net.input(0, Input::Close);
    net.run(5_000);
    net.post(1, 18);
    assert_eq!(net.run_to_end(100_000), Some(15_000));
}

#[test]
fn nobody_left() {
    let mut net = stubborn();
    net.destroy(0);
    // The consumer is told at once, the peer is reset after 5 s.
    assert_eq!(net.ends[0].closes(), [(net.now, Status::Ok)]);
    assert_eq!(net.run_to_end(100_000), Some(5_000));
}

#[test]
fn nobody_left_and_no_fin() {
    let mut net = Net::peer(First::Ours);
    net.run(100);
    net.destroy(0);
    assert_eq!(net.run_to_end(100_000), Some(10_000));
    assert!(net.ends[1].eof);
}

/// A peer that takes a little again and again is not reset before the 65 s are over.
#[test]
fn taken_slowly_and_too_slowly() {
    for (takes, ends) in [(12_000, 15_000..=20_000), (200_000, 65_000..=65_000)] {
        let mut net = stubborn();
        net.destroy(0);
        let began = net.now;
        while !net.is_over() {
            net.run(1000);
            if net.now - began < takes {
                net.ends[1].read += 7;
            }
        }
        let log = &net.ends[0].log;
        let reset = log.iter().find(|(_, action)| *action == Action::Reset);
        assert!(
            reset.is_some_and(|(time, _)| ends.contains(&(time - began))),
            "{reset:?}"
        );
    }
}

#[test]
fn without_memory_the_fin_comes_later() {
    for input in [Input::Close, Input::Flush] {
        let mut net = Net::peer(First::Ours);
        net.ends[0].no_memory = true;
        net.input(0, input);
        net.run(1000);
        assert!(!net.ends[1].eof);
        net.ends[0].no_memory = false;
        net.run(50);
        assert!(net.ends[1].eof);
        net.fin(1);
        assert!(net.run_to_end(1000).is_some());
    }
}

#[test]
fn a_reset_is_told_at_once() {
    let mut net = stubborn();
    net.reset(1);
    ends_after(&mut net, 1, Status::OfSocket);
}

#[test]
fn an_initiator_repeats_its_rtr_once() {
    let mut net = Net::peer(First::OurRtr(0));
    net.run(10_000);
    assert_eq!(net.ends[1].read, 1);
    let repeats = |net: &Net| {
        let log = net.ends[0].log.iter();
        log.filter(|(_, a)| *a == Action::RepeatRtr).count()
    };
    assert_eq!(repeats(&net), 1);
    // A peer that has answered.
    let mut net = Net::peer(First::OurRtr(0));
    net.post(1, 18);
    net.run(10_000);
    assert_eq!(repeats(&net), 0);
}

fn may_start(net: &Net) -> Option<i64> {
    let log = &net.ends[0].log;
    log.iter()
        .find(|(_, action)| *action == Action::MayStart)
        .map(|(time, _)| *time)
}

#[test]
fn begins_after_reply() {
    let mut net = Net::peer(SILENT);
    net.post(0, 100);
    net.run(10_000);
    // The acknowledgment of the Reply takes 2 ms.
    let began = may_start(&net).expect("it begins");
    assert!((1500..=1510).contains(&began), "{began}");
    assert_eq!(net.ends[1].read, 101);
}

#[test]
fn begins_after_late_reply() {
    let mut net = Net::peer(SILENT);
    net.post(0, 100);
    net.ends[1].deaf = true;
    net.run(5_000);
    net.ends[1].deaf = false;
    net.run(10_000);
    let began = may_start(&net).expect("it begins");
    assert!((6500..=6710).contains(&began), "{began}");
}

#[test]
fn begins_and_ends() {
    let mut net = Net::peer(SILENT);
    net.post(0, 100);
    net.input(0, Input::Close);
    net.run(1000);
    assert_eq!(net.ends[1].read, 1);
    net.run(1000);
    assert_eq!((net.ends[1].read, net.ends[1].eof), (101, true));
    net.fin(1);
    assert!(net.run_to_end(100).is_some());
    assert_eq!(net.ends[0].closes()[0].1, Status::Ok);
}

#[test]
fn never_begins() {
    let mut net = Net::peer(First::Theirs {
        wait: 0,
        reply: iwarp::conn::Reply::Sent(1),
    });
    net.post(0, 100);
    net.run(100_000);
    assert_eq!((may_start(&net), net.ends[1].read), (None, 1));
    net.post(1, 18);
    net.run(100);
    assert_eq!(net.ends[1].read, 101);
}

/// A device that is removed: an orderly close is quick, with a peer that takes data as well.
#[test]
fn a_removed_device_does_not_wait() {
    let mut net = stubborn();
    net.input(0, Input::Close);
    net.run(10_000);
    net.ends[0].leaving = true;
    net.input(0, Input::Leave);
    ends_after(&mut net, 1000, Status::TimedOut);
}

/// A connection that TCP makes at once, and whose Request the peer answers so.
fn answered(input: Input) -> Fate {
    Fate {
        connect: Some((1, Input::Connected)),
        reply: Some((1, input)),
        ..Fate::default()
    }
}

/// Runs an attempt that asks for large FPDUs and revision 2 and is left alone.
fn attempt_with(fates: &[Fate]) -> attempt::Outcome {
    attempt::run(Plan::new(2, true, false, 100), fates, None, i64::MAX, 0)
}

/// A peer that closes all attempts: three connections, and one error.
#[test]
fn fall_back_fails() {
    let outcome = attempt_with(&[answered(Input::HungUp)]);
    assert_eq!(outcome.plans.len(), 3);
    assert_eq!(outcome.report, Report::Failed(Status::OfSocket));
}

/// A peer that begins to listen after the first SYN.
#[test]
fn listens_late() {
    let refused = Fate {
        connect: Some((1, Input::Refused)),
        ..Fate::default()
    };
    let fates = [refused.clone(), refused.clone(), answered(Input::Accepted)];
    let outcome = attempt_with(&fates);
    assert_eq!(outcome.report, Report::Connected);
    assert_eq!(outcome.ms, 1 + 20 + 1 + 40 + 2);
    // Nobody listens: the device tries four times, then it tells the consumer.
    let outcome = attempt_with(&[refused]);
    assert_eq!(outcome.plans.len(), 4);
    assert_eq!(
        (outcome.ms, outcome.report),
        (144, Report::Failed(Status::Refused))
    );
}

/// A peer that drops the offer of large FPDUs, and one that does not know revision 2.
#[test]
fn fall_back_after_fin() {
    let fates = [answered(Input::HungUp), answered(Input::Accepted)];
    let outcome = attempt_with(&fates);
    assert_eq!(outcome.report, Report::Connected);
    assert_eq!(
        (outcome.plans[1].revision, outcome.plans[1].large_fpdu),
        (2, false)
    );
    let fates = [answered(Input::OldFormat), answered(Input::Accepted)];
    let outcome = attempt_with(&fates);
    assert_eq!((outcome.plans.len(), outcome.plans[1].revision), (2, 1));
}

/// A peer that does not answer, by TCP or by MPA.
#[test]
fn silence() {
    let silent = Fate {
        reply: None,
        ..answered(Input::Accepted)
    };
    let outcome = attempt_with(&[silent]);
    assert_eq!(outcome.report, Report::Failed(Status::TimedOut));
    assert!((29_980..=30_001).contains(&outcome.ms));
    let outcome = attempt_with(&[Fate::default()]);
    assert!((19_980..=20_000).contains(&outcome.ms));
}

/// A connection that a listener takes without TLS, and whose Request comes so.
fn asked(request: Input) -> incoming::Fate {
    incoming::Fate {
        request: Some((1, request)),
        turn: Some((0, Input::Turn)),
        ..incoming::Fate::default()
    }
}

/// A peer that sends nothing, or only the first byte: 10 s.
#[test]
fn a_silent_peer_has_ten_seconds() {
    for byte in [None, Some(None), Some(Some((5_000, Input::MpaBegins)))] {
        let outcome = incoming::run(
            &incoming::Fate {
                byte,
                ..incoming::Fate::default()
            },
            None,
            0,
        );
        incoming::check(&outcome);
        assert_eq!((outcome.ms, outcome.end), (10_000, StageName::Closed));
    }
}

/// Peers that leave in every stage: their connections end at once, but for that of which the
/// consumer knows.
#[test]
fn peers_that_go_at_once() {
    let outcome = incoming::run(&asked(Input::HungUp), None, 0);
    assert_eq!((outcome.ms, outcome.end), (1, StageName::Closed));
    let mut fate = asked(Input::RequestCame);
    fate.gone = Some(2);
    let outcome = incoming::run(&fate, None, 0);
    incoming::check(&outcome);
    let reset = outcome.log.iter().find(|one| one.1 == Action::Reset);
    assert_eq!(reset.map(|reset| reset.0), Some(3));
    assert_eq!(outcome.ms, 75_001);
    fate.turn = None;
    let outcome = incoming::run(&fate, None, 0);
    assert_eq!((outcome.ms, outcome.reported), (3, false));
}

/// A call of a queue pair by name: before the other end is ready, and where that never is.
#[test]
fn calls() {
    let mut fate = asked(Input::Called);
    fate.turn = Some((4_000, Input::Turn));
    let outcome = incoming::run(&fate, None, 0);
    incoming::check(&outcome);
    assert_eq!((outcome.ms, outcome.end), (4_001, StageName::Streaming));
    fate.turn = None;
    let outcome = incoming::run(&fate, None, 0);
    incoming::check(&outcome);
    assert_eq!((outcome.ms, outcome.end), (5_001, StageName::Linger));
    fate.expected = true;
    let outcome = incoming::run(&fate, None, 0);
    incoming::check(&outcome);
    assert_eq!((outcome.ms, outcome.end), (1, StageName::Streaming));
    fate.admit = Some(Input::NotAttached);
    fate.rejection_fails = true;
    let outcome = incoming::run(&fate, None, 0);
    incoming::check(&outcome);
    assert_eq!((outcome.ms, outcome.end), (1, StageName::Closed));
    // The peer goes while it waits.
    fate = asked(Input::Called);
    (fate.turn, fate.gone) = (None, Some(300));
    let outcome = incoming::run(&fate, None, 0);
    incoming::check(&outcome);
    assert_eq!((outcome.ms, outcome.end), (301, StageName::Closed));
}

/// A consumer that never answers: the Request is withdrawn.
#[test]
fn unanswered() {
    let outcome = incoming::run(&asked(Input::RequestCame), None, 0);
    incoming::check(&outcome);
    assert_eq!((outcome.ms, outcome.end), (75_001, StageName::Closed));
    let withdrawn = |action: &Action| *action == Action::SetUp(SetUp::Withdraw);
    assert_eq!(outcome.count(withdrawn), 1);
    let mut fate = asked(Input::RequestCame);
    fate.turn = None;
    let outcome = incoming::run(&fate, None, 0);
    assert_eq!((outcome.ms, outcome.end), (30_001, StageName::Linger));
}
