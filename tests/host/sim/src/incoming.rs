// SPDX-License-Identifier: GPL-2.0

//! Connections that a listener has accepted, in virtual time, until their Requests are answered:
//! with peers that say nothing, begin with anything, hang up, and consumers that answer late, twice
//! or never.

use crate::attempt::{one, some_ms, After};
use crate::{follow, Entropy};
use iwarp::conn::{Action, Input, Machine, Rule, Seen, SetUp, StageName};

/// What comes of one connection. Of what is not there, nothing comes.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// Of the wait for the first byte. `None`: the listener takes no TLS.
    pub byte: Option<After>,
    /// Of the wait for a turn to make a TLS handshake.
    pub place: After,
    /// How often the kernel has no room for a handshake.
    pub busy: u32,
    /// Of the handshake.
    pub tls: After,
    /// Of switching TLS on fails.
    pub attach_fails: bool,
    /// Of the wait for the Request.
    pub request: After,
    /// Of the wait for the other Requests.
    pub turn: After,
    /// iwcm has no room for the Request.
    pub report_fails: bool,
    /// The consumer's answers.
    pub answers: [After; 2],
    /// Of accepting, if it fails or is to be followed by an RTR.
    pub accept: Option<Input>,
    /// The queue pair that a call names expects it already. Otherwise it does after its `turn`.
    pub expected: bool,
    /// Of admitting a call, if it fails.
    pub admit: Option<Input>,
    /// A rejection cannot be sent.
    pub rejection_fails: bool,
    /// When the peer goes after its Request has come.
    pub gone: Option<i64>,
}

/// What came of a connection.
#[derive(Debug)]
pub struct Outcome {
    /// How long its setup took.
    pub ms: i64,
    /// The stage behind it.
    pub end: StageName,
    /// The Request was reported.
    pub reported: bool,
    /// The consumer was still to answer, or had not, when it answered.
    pub answered: bool,
    /// The Request was a call of a queue pair by name.
    pub called: bool,
    /// All actions, with their times.
    pub log: Vec<(i64, Action)>,
}

impl Outcome {
    /// How many actions are like this.
    pub fn count(&self, like: impl Fn(&Action) -> bool) -> usize {
        self.log.iter().filter(|(_, action)| like(action)).count()
    }
}

struct Incoming<'a> {
    seen: Seen,
    fate: &'a Fate,
    busy: u32,
    /// What is to come.
    next: After,
    gone_at: Option<i64>,
    answers: Vec<(i64, Input)>,
    reported: bool,
    called: bool,
    expected: bool,
    log: Vec<(i64, Action)>,
}

/// Runs a connection until its setup is over. `event` is what its listener or device does, `jitter`
/// how early or late timers are.
pub fn run(fate: &Fate, event: After, jitter: i64) -> Outcome {
    let seen = Seen::default();
    let machine = match fate.byte {
        Some(_) => Machine::await_octet(200, &seen),
        None => Machine::await_request(0, &seen),
    };
    let incoming = Incoming {
        seen,
        fate,
        busy: fate.busy,
        next: fate.byte.unwrap_or(fate.request),
        gone_at: None,
        answers: Vec::new(),
        reported: false,
        called: false,
        expected: fate.expected,
        log: Vec::new(),
    };
    incoming.run(machine, event, jitter)
}

impl Incoming<'_> {
    fn run(mut self, mut machine: Machine, mut event: After, jitter: i64) -> Outcome {
        let (mut timed_at, mut answered) = (0, false);
        while machine.stage().is_responders() {
            // Every stage of a setup has a way out.
            let timer = machine.deadline().expect("a way out") + jitter;
            let due = [
                self.next.map(|next| next.0),
                event.map(|event| event.0),
                self.gone_at,
                self.answers.first().map(|answer| answer.0),
            ];
            let timer = timer.max(timed_at + 1);
            let due = due.into_iter().flatten().fold(timer, i64::min);
            self.seen.now = due.max(self.seen.now);
            let now = self.seen.now;
            let input = if event.is_some_and(|event| event.0 <= now) {
                event.take().expect("an event").1
            } else if self.gone_at.is_some_and(|at| at <= now) {
                self.gone_at = None;
                Input::HungUp
            } else if self.answers.first().is_some_and(|answer| answer.0 <= now) {
                answered = true;
                self.answers.remove(0).1
            } else if self.next.is_some_and(|next| next.0 <= now) {
                self.next.take().expect("an input").1
            } else {
                timed_at = now;
                Input::Timeout
            };
            self.input(&mut machine, input);
        }
        Outcome {
            ms: self.seen.now,
            end: machine.stage(),
            reported: self.reported,
            answered,
            called: self.called,
            log: self.log,
        }
    }

    fn expect(&mut self, after: After) {
        self.next = after.map(|(ms, input)| (self.seen.now + ms, input));
    }

    /// What comes at once is an answer, and what comes later an event.
    fn at_once(&mut self, after: After) -> Option<Input> {
        self.expect(after);
        self.next
            .take_if(|(at, _)| *at <= self.seen.now)
            .map(|(_, input)| input)
    }

    fn input(&mut self, machine: &mut Machine, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let Some(rule) = follow(machine, input, &self.seen) else {
                return;
            };
            if rule.to == StageName::AwaitRequest && input == Input::Secured {
                self.expect(self.fate.request);
            }
            next = self.execute(rule);
        }
    }

    /// Looks for the queue pair that a call names.
    fn admit(&mut self) -> Option<Input> {
        if !self.expected {
            self.expected = true;
            self.expect(self.fate.turn);
            return Some(Input::NotExpected);
        }
        self.fate.admit.or(Some(Input::ReplySentForRtr))
    }

    fn execute(&mut self, rule: &'static Rule) -> Option<Input> {
        let mut answer = None;
        for action in rule.actions {
            self.log.push((self.seen.now, *action));
            let Action::SetUp(action) = action else {
                if *action == Action::SendFin {
                    answer = Some(Input::FinSent);
                }
                continue;
            };
            let now = match action {
                SetUp::AwaitPlace => self.at_once(self.fate.place),
                SetUp::StartTls if self.busy > 0 => {
                    self.busy -= 1;
                    Some(Input::TryAgain)
                }
                SetUp::StartTls => {
                    self.expect(self.fate.tls);
                    Some(Input::TlsStarted)
                }
                SetUp::AttachTls if self.fate.attach_fails => Some(Input::TlsFailed),
                SetUp::AttachTls => Some(Input::Secured),
                SetUp::ReadRequest => self.at_once(self.fate.request),
                SetUp::Queue => {
                    let now = self.seen.now;
                    self.gone_at = self.fate.gone.map(|ms| now + ms);
                    self.at_once(self.fate.turn).or(Some(Input::NoTurn))
                }
                SetUp::Admit => {
                    if !self.called {
                        let now = self.seen.now;
                        self.gone_at = self.fate.gone.map(|ms| now + ms);
                    }
                    self.called = true;
                    self.admit()
                }
                SetUp::ReportRequest if self.fate.report_fails => Some(Input::NotReported),
                SetUp::ReportRequest => {
                    let now = self.seen.now;
                    let answers = self.fate.answers.into_iter().flatten();
                    self.answers = answers.map(|(ms, answer)| (now + ms, answer)).collect();
                    self.answers.sort_by_key(|answer| answer.0);
                    self.reported = true;
                    Some(Input::Reported)
                }
                SetUp::Accept => self.fate.accept.or(Some(Input::ReplySent)),
                SetUp::SendRejection if self.fate.rejection_fails => Some(Input::RejectionNotSent),
                SetUp::SendRejection => Some(Input::RejectionSent),
                _ => None,
            };
            answer = now.or(answer);
        }
        answer
    }
}

fn fate(e: &mut Entropy) -> Fate {
    let bytes = [
        Input::MpaBegins,
        Input::TlsBegins,
        Input::TlsBegins,
        Input::TlsBegins,
        Input::NoTls,
        Input::HungUp,
    ];
    let requests = [
        Input::RequestCame,
        Input::RequestCame,
        Input::RequestCame,
        Input::RequestCame,
        Input::Called,
        Input::Called,
        Input::BadRequest,
        Input::NotAdmitted,
        Input::HungUp,
    ];
    let answers = [Input::Accept, Input::Accept, Input::Reject];
    let tls = [Input::TlsDone, Input::TlsDone, Input::TlsFailed];
    let after = |e: &mut Entropy, of: &[Input]| match e.below(8) {
        0 => None,
        _ => Some((some_ms(e), one(e, of))),
    };
    let mut fate = Fate {
        byte: e.flag().then(|| after(e, &bytes)),
        place: after(e, &[Input::Turn]),
        tls: after(e, &tls),
        request: after(e, &requests),
        turn: after(e, &[Input::Turn]),
        answers: [after(e, &answers), after(e, &answers)],
        gone: (e.below(4) == 0).then(|| some_ms(e)),
        expected: e.flag(),
        ..Fate::default()
    };
    if e.below(4) == 0 {
        let accepts = [
            Input::NotAttached,
            Input::CannotStart,
            Input::ReplyNotSent,
            Input::ReplySentForRtr,
        ];
        let admits = [
            Input::NotAdmitted,
            Input::NotAttached,
            Input::CannotStart,
            Input::ReplyNotSent,
            Input::Broken,
        ];
        fate.admit = Some(one(e, &admits));
        fate.accept = Some(one(e, &accepts));
        fate.busy = u32::from(e.u8()) * 3;
        fate.attach_fails = e.flag();
        fate.report_fails = e.flag();
        fate.rejection_fails = e.flag();
    }
    fate
}

/// A random connection: whatever peers and consumers do, its setup ends in time and gives its slot
/// back once; its Request is reported once at most, and then answered or withdrawn once; and
/// `ESTABLISHED` comes only after the consumer has accepted. Of a call no consumer hears.
pub fn random(e: &mut Entropy) {
    let fate = fate(e);
    let events = [
        Input::Abort,
        Input::Leave,
        Input::Close,
        Input::GiveWay,
        Input::Unlistened,
    ];
    let event = (e.below(4) == 0).then(|| (some_ms(e), one(e, &events)));
    let jitter = i64::from(e.below(60)) - 20;
    let outcome = run(&fate, event, jitter);
    check(&outcome);
    if let Some((at, Input::Abort | Input::Leave | Input::Close)) = event {
        assert!(outcome.ms <= at, "{outcome:?}");
    }
}

/// What holds for each connection.
pub fn check(outcome: &Outcome) {
    // 10 s for a byte, 20 for TLS, 10 for the Request, 30 in the queue, 75 for the answer.
    assert!(outcome.ms <= 145_000 + 10 * 100, "{outcome:?}");
    let slots = outcome.log.iter().position(|one| one.1 == Action::FreeSlot);
    let slots = slots.expect("the slot is given back");
    assert_eq!(outcome.count(|action| *action == Action::FreeSlot), 1);
    let rest = &outcome.log[slots..];
    assert!(!rest.iter().any(|one| matches!(one.1, Action::SetUp(_))));

    let reported = usize::from(outcome.reported);
    let answers =
        |action: &Action| matches!(action, Action::Return(_) | Action::SetUp(SetUp::Withdraw));
    assert_eq!(outcome.count(answers), reported, "{outcome:?}");
    assert_eq!(
        outcome.count(|action| *action == Action::CountRequest),
        reported
    );
    let dropped = outcome.count(|action| *action == Action::CountDropped);
    // A call that is for a queue pair here is not dropped, whatever comes of it.
    let streams = usize::from(outcome.end == StageName::Streaming);
    let lost = outcome.count(|action| matches!(action, Action::Lose(_)));
    let kept = if outcome.called {
        streams + lost
    } else {
        reported
    };
    assert_eq!(dropped, 1 - kept, "{outcome:?}");
    let returns = outcome.count(|action| matches!(action, Action::Return(_)));
    assert!(returns == 0 || outcome.answered, "{outcome:?}");

    let accepted = outcome.count(|action| *action == Action::SetUp(SetUp::Accept));
    let established = outcome.count(|action| *action == Action::ReportEstablished);
    let told = streams * usize::from(!outcome.called);
    assert_eq!(established, told, "{outcome:?}");
    assert_eq!(
        outcome.count(|action| *action == Action::GiveStream),
        streams
    );
    assert!(accepted >= established, "{outcome:?}");
    // Nothing else is told of what was not established.
    let others = |action: &Action| {
        matches!(
            action,
            Action::ReportReply(_) | Action::ReportClose(_) | Action::ReportDisconnect
        )
    };
    assert_eq!(outcome.count(others), 0, "{outcome:?}");
}
