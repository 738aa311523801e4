// SPDX-License-Identifier: GPL-2.0

//! Setup between two machines in virtual time: what an initiator's and a listener's consumer are
//! told, when they and the network do what they may do at any moment.

mod config;

use iwarp::conn::{Action, Input, Plan, Report, SetUp, StageName, Status};
use iwarp_sim::dial::{check, check_call, random, run, Dial, Knows, Outcome, Tls};
use iwarp_sim::Entropy;
use proptest::collection::vec;
use proptest::prelude::*;

const PLAIN: Plan = Plan::new(2, true, false, 100);
const SECURE: Plan = Plan::new(2, true, true, 100);

fn checked(dial: &Dial) -> Outcome {
    let outcome = run(dial);
    check(dial, &outcome);
    outcome
}

/// The stages of the last connection's ends.
fn ends(outcome: &Outcome) -> (StageName, Option<StageName>) {
    let (ours, theirs) = outcome.sides.last().expect("a connection");
    (ours.stage(), theirs.as_ref().map(|side| side.stage()))
}

const BOTH: (StageName, Option<StageName>) = (StageName::Streaming, Some(StageName::Streaming));

#[test]
fn two_round_trips() {
    for rtr in [false, true] {
        let dial = Dial {
            rtr,
            ..Dial::new(PLAIN)
        };
        let outcome = checked(&dial);
        assert_eq!(outcome.report, Some((40, Report::Connected)));
        assert_eq!((outcome.sides.len(), ends(&outcome)), (1, BOTH));
    }
}

#[test]
fn three_and_two_handshakes_with_tls() {
    let outcome = checked(&Dial {
        place: 3,
        ..Dial::new(SECURE)
    });
    // The place is waited for at both ends, the handshake is the responder's.
    assert_eq!(
        outcome.report,
        Some((3 + 20 + 10 + 3 + 5 + 10 + 20, Report::Connected))
    );
    assert_eq!(ends(&outcome), BOTH);
}

#[test]
fn messages_in_parts() {
    for plan in [PLAIN, SECURE] {
        let dial = Dial {
            parts: 4_000,
            ..Dial::new(plan)
        };
        assert_eq!(ends(&checked(&dial)), BOTH);
        // The Request has ten seconds from the first byte of the connection on.
        let dial = Dial {
            parts: 10_500,
            tls: Tls::No,
            ..Dial::new(plan)
        };
        assert!(matches!(
            checked(&dial).report,
            Some((_, Report::Failed(_)))
        ));
    }
}

#[test]
fn a_listener_that_is_late() {
    let late = |listens_at| {
        checked(&Dial {
            listens_at,
            ..Dial::new(PLAIN)
        })
    };
    // Three more tries, after 20, 40 and 80 ms, each of which takes a round trip.
    let outcome = late(200);
    assert_eq!((outcome.sides.len(), ends(&outcome)), (4, BOTH));
    assert_eq!(late(30).sides.len(), 2);
    let outcome = late(1_000);
    assert_eq!(outcome.report, Some((220, Report::Failed(Status::Refused))));
}

#[test]
fn responders_that_know_less() {
    for (knows, connections) in [
        (Knows::NoOffers, 2),
        (Knows::Revision1, 3),
        (Knows::OldFormat, 2),
    ] {
        let outcome = checked(&Dial {
            knows,
            ..Dial::new(PLAIN)
        });
        assert_eq!(outcome.sides.len(), connections, "{knows:?}");
        assert!(
            matches!(outcome.report, Some((_, Report::Connected))),
            "{knows:?}"
        );
        assert_eq!(ends(&outcome), BOTH, "{knows:?}");
        if knows == Knows::OldFormat {
            continue;
        }
        // Within TLS nobody but the peer closes, so that the attempt asks for no less.
        let outcome = checked(&Dial {
            knows,
            ..Dial::new(SECURE)
        });
        assert!(
            matches!(outcome.report, Some((_, Report::Failed(_)))),
            "{knows:?}"
        );
    }
}

#[test]
fn one_end_is_without_tls() {
    let outcome = checked(&Dial {
        tls: Tls::Required,
        ..Dial::new(PLAIN)
    });
    assert!(matches!(
        outcome.report,
        Some((_, Report::Failed(Status::OfSocket)))
    ));
    assert!(outcome.sides.iter().all(|(_, side)| {
        side.as_ref()
            .is_some_and(|side| side.count(Action::CountDropped) == 1)
    }));
    let outcome = checked(&Dial {
        tls: Tls::No,
        ..Dial::new(SECURE)
    });
    assert_eq!(
        outcome.report.map(|told| told.1),
        Some(Report::Failed(Status::OfTls))
    );
    assert_eq!(outcome.sides.len(), 1);
}

#[test]
fn a_turn_for_tls_that_comes_late() {
    // The responder's turn and handshake have 20 s together, as the initiator's have.
    let outcome = checked(&Dial {
        place: 19_000,
        ..Dial::new(SECURE)
    });
    assert_eq!(ends(&outcome), BOTH);
    let outcome = checked(&Dial {
        place: 21_000,
        ..Dial::new(SECURE)
    });
    assert!(matches!(outcome.report, Some((_, Report::Failed(_)))));
}

#[test]
fn slow_consumers() {
    let slow = |ms, delay| {
        let answer = Some((ms, Input::Accept));
        checked(&Dial {
            answer,
            delay,
            ..Dial::new(PLAIN)
        })
    };
    assert_eq!(ends(&slow(29_900, 10)), BOTH);
    // The peer has given up: the consumer is told so when it answers.
    let outcome = slow(31_000, 10);
    assert_eq!(
        outcome.report.map(|told| told.1),
        Some(Report::Failed(Status::TimedOut))
    );
    let responder = outcome.sides[0].1.as_ref().expect("a responder");
    assert_eq!(responder.count(Action::Return(Status::Reset)), 1);
    assert_eq!(responder.count(Action::ReportEstablished), 0);
    // The Reply and the reset pass each other: there was a connection, and it has ended.
    let outcome = slow(29_700, 500);
    assert_eq!(
        outcome.report.map(|told| told.1),
        Some(Report::Failed(Status::TimedOut))
    );
    let responder = outcome.sides[0].1.as_ref().expect("a responder");
    assert_eq!(responder.count(Action::ReportEstablished), 1);
    assert_eq!(responder.closes(), [Status::OfSocket]);
    // No answer at all.
    let outcome = checked(&Dial {
        answer: None,
        ..Dial::new(PLAIN)
    });
    let responder = outcome.sides[0].1.as_ref().expect("a responder");
    assert_eq!(responder.count(Action::SetUp(SetUp::Withdraw)), 1);
    // The Request is not reported, as others come first: it is rejected when the peer has gone.
    let outcome = checked(&Dial {
        queue: None,
        ..Dial::new(PLAIN)
    });
    assert_eq!(
        outcome.report.map(|told| told.1),
        Some(Report::Failed(Status::TimedOut))
    );
}

#[test]
fn a_rejection() {
    for plan in [PLAIN, SECURE] {
        let answer = Some((7, Input::Reject));
        let outcome = checked(&Dial {
            answer,
            ..Dial::new(plan)
        });
        assert_eq!(
            outcome.report.map(|told| told.1),
            Some(Report::Answered(Status::Refused))
        );
        assert_eq!(ends(&outcome), (StageName::Closed, Some(StageName::Closed)));
        let responder = outcome.sides[0].1.as_ref().expect("a responder");
        assert_eq!(responder.count(Action::Return(Status::Ok)), 1);
    }
}

/// Attempts of each kind, which take different ways.
fn kinds() -> impl Iterator<Item = Dial> {
    let plans = [PLAIN, SECURE].into_iter();
    plans.flat_map(|plan| {
        let dial = Dial {
            place: 3,
            parts: 2,
            queue: Some(4),
            ..Dial::new(plan)
        };
        let dial = Dial {
            answer: Some((6, Input::Accept)),
            ..dial
        };
        let reject = Some((6, Input::Reject));
        [
            dial.clone(),
            Dial {
                rtr: false,
                ..dial.clone()
            },
            Dial {
                answer: reject,
                ..dial.clone()
            },
            Dial {
                answer: None,
                ..dial.clone()
            },
            Dial {
                queue: None,
                ..dial.clone()
            },
            Dial {
                listens_at: 60,
                ..dial.clone()
            },
            Dial {
                knows: Knows::Revision1,
                ..dial.clone()
            },
            Dial {
                knows: Knows::OldFormat,
                ..dial.clone()
            },
            Dial {
                tls: Tls::No,
                ..dial.clone()
            },
            Dial {
                tls: Tls::Required,
                ..dial
            },
        ]
    })
}

/// Each thing that a consumer or the device does at either end, in each millisecond of the setup.
#[test]
fn each_event_at_each_time() {
    const EVENTS: [Input; 5] = [
        Input::Abort,
        Input::Flush,
        Input::Close,
        Input::Leave,
        Input::Unlistened,
    ];
    for dial in kinds() {
        for input in EVENTS {
            for end in 0..2 {
                for at in 0..300 {
                    let event = Some((at, end, input));
                    let dial = Dial {
                        event,
                        ..dial.clone()
                    };
                    let outcome = checked(&dial);
                    // An end that gives up is told at once.
                    if end == 0 && input != Input::Unlistened {
                        assert!(
                            outcome.report.is_some_and(|told| told.0 <= at),
                            "{outcome:?}"
                        );
                    }
                }
            }
        }
    }
}

/// The network goes, in each millisecond of the setup.
#[test]
fn a_loss_at_each_time() {
    for dial in kinds() {
        for lost_at in 0..300 {
            let dial = Dial {
                lost_at,
                ..dial.clone()
            };
            let outcome = checked(&dial);
            let both = ends(&outcome);
            assert!(both.0 != StageName::Streaming, "{outcome:?}");
        }
    }
}

/// The connection of a call breaks, in each millisecond of its setup and after it. The caller comes
/// again, and the queue pair takes it, unless the caller has had its Reply.
#[test]
fn a_call_that_breaks_at_each_time() {
    for (plan, delay) in [(PLAIN, 10), (PLAIN, 40), (SECURE, 10), (PLAIN, 4_000)] {
        let called = Dial {
            call: true,
            delay,
            place: 3,
            ..Dial::new(plan.exactly())
        };
        let outcome = run(&called);
        check_call(&called, &outcome);
        let there = outcome.report.expect("a connection").0;
        for heard in [true, false] {
            let step = usize::try_from(delay / 10).expect("a step");
            for at in (0..there + 3 * delay).step_by(step) {
                let breaks = Some((at, heard));
                let dial = Dial {
                    breaks,
                    ..called.clone()
                };
                check_call(&dial, &run(&dial));
            }
        }
    }
}

proptest! {
    #![proptest_config(config::cases(5_000))]

    /// Whatever both ends and the network do, both have the connection or neither has, and each is
    /// told once.
    #[test]
    fn any_dial(data in vec(any::<u8>(), 0..60)) {
        random(&mut Entropy::new(&data));
    }
}
