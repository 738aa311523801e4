// SPDX-License-Identifier: GPL-2.0

//! Attempts to connect in virtual time, each of as many TCP connections as it takes, against peers
//! that listen late, refuse, hang up, reject, answer anything or nothing.

use crate::{follow, Entropy};
use iwarp::conn::{Action, Input, Lost, Machine, Plan, Report, Rule, Seen, SetUp, StageName};

/// What a peer, or the kernel, does after so many milliseconds. `None`: nothing.
pub type After = Option<(i64, Input)>;

/// What comes of one TCP connection.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// Of the wait for a turn: [`Input::Turn`].
    pub turn: After,
    /// Of connecting.
    pub connect: After,
    /// How often the kernel has no room for a handshake.
    pub busy: u32,
    /// Of the handshake.
    pub tls: After,
    /// Of switching TLS on fails.
    pub attach_fails: bool,
    /// Of sending the Request, if it fails.
    pub request: Option<Input>,
    /// Of the Request.
    pub reply: After,
    /// Of starting the queue pair.
    pub start: Option<Input>,
    /// Of sending a Terminate fails.
    pub terminate_fails: bool,
}

/// What came of an attempt.
#[derive(Debug)]
pub struct Outcome {
    /// How long it took until the consumer was told.
    pub ms: i64,
    /// What the consumer was told.
    pub report: Report,
    /// The plan of each connection.
    pub plans: Vec<Plan>,
    /// All actions.
    pub log: Vec<Action>,
}

/// An attempt under way.
struct Attempt<'a> {
    seen: Seen,
    fate: &'a Fate,
    busy: u32,
    /// What is to come.
    next: After,
    report: Option<(i64, Report)>,
    log: Vec<Action>,
}

/// Runs an attempt to the end. `fates` are those of its connections, and of the last one for all
/// that follow. `event` is what its consumer or device does. `jitter` is how early or late timers
/// are.
pub fn run(plan: Plan, fates: &[Fate], event: After, orphaned_at: i64, jitter: i64) -> Outcome {
    let mut plans = Vec::new();
    let mut attempt = Attempt {
        seen: Seen::default(),
        fate: &fates[0],
        busy: 0,
        next: None,
        report: None,
        log: Vec::new(),
    };
    let mut next = Some(plan);
    while let Some(plan) = next {
        attempt.fate = fates.get(plans.len()).unwrap_or(&fates[fates.len() - 1]);
        plans.push(plan);
        next = attempt.connection(plan, event, orphaned_at, jitter);
    }
    let (ms, report) = attempt.report.expect("the consumer is told");
    Outcome {
        ms,
        report,
        plans,
        log: attempt.log,
    }
}

impl Attempt<'_> {
    /// One TCP connection. Returns the plan of the next one, if there is one.
    fn connection(
        &mut self,
        plan: Plan,
        mut event: After,
        orphaned_at: i64,
        jitter: i64,
    ) -> Option<Plan> {
        self.busy = self.fate.busy;
        let mut machine = if plan.secure {
            self.expect(self.fate.turn);
            Machine::await_turn(plan, &self.seen)
        } else {
            self.expect(self.fate.connect);
            Machine::connecting(plan, &self.seen)
        };
        let mut timed_at = self.seen.now;
        loop {
            let stage = machine.stage();
            if stage == StageName::Streaming {
                return None;
            }
            if [StageName::Closed, StageName::Linger, StageName::Retry].contains(&stage) {
                return machine.into_plan();
            }
            // Every stage of an attempt has a way out.
            let timer = machine.deadline().expect("a way out") + jitter;
            let timer = timer.max(timed_at + 1);
            let due = [self.next.map(|next| next.0), event.map(|event| event.0)];
            self.seen.now = due
                .into_iter()
                .flatten()
                .fold(timer, i64::min)
                .max(self.seen.now);
            self.seen.orphaned = self.seen.now >= orphaned_at;
            let now = self.seen.now;
            let input = if event.is_some_and(|event| event.0 <= now) {
                event.take().expect("an event").1
            } else if self.next.is_some_and(|next| next.0 <= now) {
                self.next.take().expect("an input").1
            } else {
                timed_at = now;
                Input::Timeout
            };
            self.input(&mut machine, input);
        }
    }

    fn expect(&mut self, after: After) {
        self.next = after.map(|(ms, input)| (self.seen.now + ms, input));
    }

    fn input(&mut self, machine: &mut Machine, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let Some(rule) = follow(machine, input, &self.seen) else {
                return;
            };
            next = self.execute(rule);
        }
    }

    fn execute(&mut self, rule: &'static Rule) -> Option<Input> {
        let mut answer = None;
        for action in rule.actions {
            self.log.push(*action);
            match action {
                Action::SetUp(SetUp::Connect) => self.expect(self.fate.connect),
                Action::SetUp(SetUp::StartTls) if self.busy > 0 => {
                    self.busy -= 1;
                    answer = Some(Input::TryAgain);
                }
                Action::SetUp(SetUp::StartTls) => {
                    self.expect(self.fate.tls);
                    answer = Some(Input::TlsStarted);
                }
                Action::SetUp(SetUp::AttachTls) => {
                    answer = Some(if self.fate.attach_fails {
                        Input::TlsFailed
                    } else {
                        Input::Secured
                    });
                }
                Action::SetUp(SetUp::SendRequest) => {
                    self.expect(self.fate.reply);
                    answer = self.fate.request;
                }
                Action::SetUp(SetUp::StartQueuePair) => {
                    answer = self.fate.start.or(Some(Input::Started))
                }
                Action::SetUp(SetUp::SendTerminate) => {
                    answer = Some(if self.fate.terminate_fails {
                        Input::TerminateNotSent
                    } else {
                        Input::TerminateSent
                    });
                }
                Action::SendFin => answer = Some(Input::FinSent),
                Action::ReportReply(report) => {
                    assert!(self.report.is_none(), "one CONNECT_REPLY");
                    self.report = Some((self.seen.now, *report));
                }
                Action::GiveStream => assert!(self.report.is_some(), "first the report"),
                Action::Lose(why) => assert_eq!(*why, Lost::Handshake),
                _ => {}
            }
        }
        answer
    }
}

/// One of these.
pub(crate) fn one<T: Copy>(e: &mut Entropy, of: &[T]) -> T {
    of[e.below(of.len() as u32) as usize]
}

/// A time after which something happens.
pub(crate) fn some_ms(e: &mut Entropy) -> i64 {
    one(e, &[0, 1, 30, 900, 1000, 5000, 19_990, 29_995, 40_000])
}

fn fate(e: &mut Entropy) -> Fate {
    let connects = [
        Input::Connected,
        Input::Connected,
        Input::Connected,
        Input::Refused,
        Input::Broken,
    ];
    let replies = [
        Input::Accepted,
        Input::Accepted,
        Input::Rejected,
        Input::OfferRejected,
        Input::OldFormat,
        Input::Incompatible,
        Input::BadReply,
        Input::HungUp,
        Input::HungUp,
    ];
    let mut after = |of: &[Input]| match e.below(8) {
        0 => None,
        _ => Some((some_ms(e), one(e, of))),
    };
    let mut fate = Fate {
        turn: after(&[Input::Turn]),
        connect: after(&connects),
        tls: after(&[Input::TlsDone, Input::TlsDone, Input::TlsFailed]),
        reply: after(&replies),
        ..Fate::default()
    };
    if e.below(4) == 0 {
        fate.busy = u32::from(e.u8()) * 3;
        fate.attach_fails = e.flag();
        fate.terminate_fails = e.flag();
        fate.request = one(e, &[None, Some(Input::HungUp), Some(Input::Broken)]);
        fate.start = one(
            e,
            &[None, Some(Input::StartedWithRtr), Some(Input::CannotStart)],
        );
    }
    fate
}

/// A random attempt: it ends in time, with one report, and asks for less each time.
pub fn random(e: &mut Entropy) {
    let revision = 1 + u8::from(e.flag());
    let secure = revision == 2 && e.flag();
    let plan = Plan::new(revision, secure || revision == 2 && e.flag(), secure, 100);
    let fates: Vec<_> = (0..7).map(|_| fate(e)).collect();
    let event = match e.below(4) {
        0 => {
            let events = [Input::Close, Input::Flush, Input::Abort, Input::Leave];
            Some((some_ms(e), one(e, &events)))
        }
        _ => None,
    };
    let orphaned_at = match e.below(4) {
        0 => some_ms(e),
        _ => i64::MAX,
    };
    let jitter = i64::from(e.below(60)) - 20;
    let outcome = run(plan, &fates, event, orphaned_at, jitter);
    // Two minutes for turns; 20 s to connect, 20 s for TLS and 30 s for a Reply, three times.
    assert!(outcome.ms <= 120_000 + 3 * 70_000 + 10 * 100, "{outcome:?}");
    // The process' end is noticed within a second of each stage, however long the peer takes.
    let noticed = orphaned_at.saturating_add(15_000);
    assert!(
        outcome.ms <= noticed || outcome.report == Report::Connected,
        "{outcome:?}"
    );
    if let Some((at, _)) = event {
        assert!(outcome.ms <= at, "{outcome:?}");
    }
    assert!(outcome.plans.len() <= 6, "{outcome:?}");
    for pair in outcome.plans.windows(2) {
        assert!(pair[1].revision <= pair[0].revision && pair[1].secure == secure);
        assert!(pair[1].large_fpdu <= pair[0].large_fpdu);
    }
    let lost = outcome
        .log
        .iter()
        .filter(|action| matches!(action, Action::Lose(_)));
    let connected = outcome.report == Report::Connected;
    assert_eq!(lost.count(), outcome.plans.len() - usize::from(connected));
    let gives = outcome
        .log
        .iter()
        .filter(|action| **action == Action::GiveStream);
    assert_eq!(gives.count(), usize::from(connected));
}
