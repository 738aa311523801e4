// SPDX-License-Identifier: GPL-2.0

//! The table of a connection's transitions: every rule of it comes about, nothing else does, and
//! Documentation shows it (`UPDATE=1 cargo test --test transitions` writes it there).

use iwarp::conn::{
    timeout, Action, First, Input, Machine, Plan, Reply, Rule, Seen, SetUp, StageName, RULES,
};
use iwarp_sim::{established::established, follow};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt::Write;

const DOCUMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Documentation");

/// Names of stages, inputs or actions.
fn names(list: impl IntoIterator<Item = impl std::fmt::Debug>) -> String {
    let name = |name| format!("{name:?}");
    let names = list.into_iter().map(name).map(|name| {
        let inner = name
            .strip_prefix("SetUp(")
            .and_then(|n| n.strip_suffix(")"));
        format!("`{}`", inner.unwrap_or(&name))
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Which stage leads to which, by which inputs.
fn diagram() -> String {
    let mut text = String::new();
    let mut ways: Vec<(StageName, StageName, BTreeSet<&str>)> = Vec::new();
    let order = [
        StageName::New,
        StageName::AwaitTlsSlot,
        StageName::Connecting,
        StageName::Backoff,
        StageName::Securing,
        StageName::AwaitReply,
        StageName::AwaitOctet,
        StageName::AwaitTls,
        StageName::AwaitRequest,
        StageName::Queued,
        StageName::Requested,
        StageName::Parked,
        StageName::Streaming,
        StageName::Draining,
        StageName::FinSent,
        StageName::Linger,
    ];
    for from in order {
        for rule in RULES.iter().filter(|rule| rule.from.contains(&from)) {
            if rule.to == from {
                continue;
            }
            match ways
                .iter_mut()
                .find(|way| way.0 == from && way.1 == rule.to)
            {
                Some(way) => way.2.extend(rule.on),
                None => ways.push((from, rule.to, rule.on.iter().copied().collect())),
            }
        }
    }
    for (from, to, on) in ways {
        let on: Vec<_> = on.into_iter().collect();
        let from = match from {
            StageName::New => String::new(),
            from => format!("{from:?}"),
        };
        let (on, to) = (on.join(", "), format!("{to:?}"));
        writeln!(text, "{from:>12} --> {to:<12}  {on}").expect("a string takes all");
    }
    text
}

fn table() -> String {
    let mut text = String::from("In,On,If,Does,Then\n");
    for rule in RULES {
        let from = match rule.from {
            [StageName::New] => String::new(),
            from => names(from),
        };
        let on: Vec<_> = rule.on.iter().map(|on| format!("`{on}`")).collect();
        let (on, when, actions) = (on.join(", "), rule.when, names(rule.actions));
        writeln!(
            text,
            "\"{from}\",\"{on}\",\"{when}\",\"{actions}\",`{:?}`",
            rule.to
        )
        .expect("a string takes all");
    }
    text
}

#[test]
fn documents_have_the_table() {
    for (name, new) in [("transitions.txt", diagram()), ("transitions.csv", table())] {
        let path = format!("{DOCUMENTS}/{name}");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, new).expect("the document can be written");
        } else {
            let old = std::fs::read_to_string(path).expect("the document is there");
            assert!(new == old, "UPDATE=1 cargo test --test transitions");
        }
    }
}

/// A connection on the way of the search, and what iwcm was told of it.
#[derive(Clone)]
struct State {
    machine: Machine,
    seen: Seen,
    /// The stage in which it began.
    began: StageName,
    given: bool,
    replies: u32,
    reported: u32,
    /// Answers to a Request, and withdrawals.
    answers: u32,
    established: u32,
    /// It is a call of a queue pair, of which iwcm does not know.
    called: bool,
    slots: u32,
    disconnects: u32,
    closes: u32,
    detached: u32,
    /// The answers of which the machine waits for one.
    asked: &'static [Input],
}

/// The answers to an action.
fn answers(action: &Action) -> &'static [Input] {
    match action {
        Action::SendFin => &[
            Input::FinSent,
            Input::NoRoom,
            Input::TryAgain,
            Input::Broken,
        ],
        Action::SetUp(action) => set_up_answers(action),
        _ => &[],
    }
}

fn set_up_answers(action: &SetUp) -> &'static [Input] {
    match action {
        SetUp::StartTls => &[Input::TlsStarted, Input::TryAgain, Input::TlsFailed],
        SetUp::AttachTls => &[Input::Secured, Input::TlsFailed],
        SetUp::StartQueuePair => &[Input::Started, Input::StartedWithRtr, Input::CannotStart],
        SetUp::SendTerminate => &[Input::TerminateSent, Input::TerminateNotSent],
        SetUp::Queue => &[Input::Turn, Input::NoTurn],
        SetUp::ReportRequest => &[Input::Reported, Input::NotReported],
        SetUp::Accept => &[
            Input::NotAttached,
            Input::CannotStart,
            Input::ReplyNotSent,
            Input::ReplySent,
            Input::ReplySentForRtr,
        ],
        SetUp::Admit => &[
            Input::NotExpected,
            Input::NotAdmitted,
            Input::NotAttached,
            Input::CannotStart,
            Input::ReplyNotSent,
            Input::ReplySentForRtr,
            Input::Broken,
        ],
        SetUp::SendRejection => &[Input::RejectionSent, Input::RejectionNotSent],
        _ => &[],
    }
}

/// Inputs that are answers only.
const ANSWERS: [Input; 20] = [
    Input::NotExpected,
    Input::NoTurn,
    Input::Reported,
    Input::NotReported,
    Input::NotAttached,
    Input::ReplySent,
    Input::ReplySentForRtr,
    Input::ReplyNotSent,
    Input::RejectionSent,
    Input::RejectionNotSent,
    Input::FinSent,
    Input::NoRoom,
    Input::TryAgain,
    Input::TlsStarted,
    Input::Secured,
    Input::Started,
    Input::StartedWithRtr,
    Input::CannotStart,
    Input::TerminateSent,
    Input::TerminateNotSent,
];

impl State {
    fn new(first: First) -> Self {
        let seen = Seen::default();
        Self::of(established(first, &seen).0, seen)
    }

    fn of(machine: Machine, seen: Seen) -> Self {
        let began = machine.stage();
        Self {
            machine,
            seen,
            began,
            given: began.is_owned(),
            replies: 0,
            reported: 0,
            answers: 0,
            established: 0,
            called: false,
            slots: 0,
            disconnects: 0,
            closes: 0,
            detached: 0,
            asked: &[],
        }
    }

    /// What tells states apart: times only by what is left.
    fn key(&self) -> String {
        let mut machine = format!("{:?}", self.machine);
        for time in [self.seen.now, self.seen.now + 200] {
            machine = machine.replace(&time.to_string(), "now");
        }
        let deadline = self.machine.deadline().map(|end| end - self.seen.now);
        let answers = (self.reported, self.answers, self.established, self.slots);
        let told = (
            self.replies,
            answers,
            self.disconnects,
            self.closes,
            self.asked,
        );
        format!("{machine} {deadline:?} {told:?} {:?}", self.seen)
    }

    fn take(&mut self, input: Input) -> Option<&'static Rule> {
        let rule = follow(&mut self.machine, input, &self.seen)?;
        self.asked = &[];
        for action in rule.actions {
            assert_eq!(self.detached, 0, "{action:?} of a connection that is over");
            let sets_up = matches!(action, Action::SetUp(_));
            assert!(self.slots == 0 || !sets_up, "{action:?} without a slot");
            match action {
                Action::ReportReply(_) => self.replies += 1,
                Action::ReportEstablished => self.established += 1,
                Action::Return(_) | Action::SetUp(SetUp::Withdraw) => self.answers += 1,
                Action::FreeSlot => self.slots += 1,
                Action::GiveStream => self.given = true,
                Action::ReportDisconnect => self.disconnects += 1,
                Action::ReportClose(_) => self.closes += 1,
                _ => {}
            }
            assert!(self.closes == 0 || *action != Action::ReportDisconnect);
            if !answers(action).is_empty() {
                self.asked = answers(action);
            }
        }
        self.reported += u32::from(input == Input::Reported);
        self.called |= input == Input::Called;
        let stage = self.machine.stage();
        if [StageName::Closed, StageName::Retry].contains(&stage) {
            self.detached += 1;
        }
        Some(rule)
    }

    /// What holds for every connection.
    fn check(&self) {
        let stage = self.machine.stage();
        let waits = self.machine.deadline().is_some();
        let over = [StageName::Closed, StageName::Linger].contains(&stage);
        let free = [StageName::Streaming, StageName::Closed, StageName::Retry].contains(&stage);
        assert!(
            waits || !self.asked.is_empty() || free,
            "{:?}",
            self.machine
        );
        assert_eq!(self.closes == 1, over && self.given);
        let told = over || stage != StageName::Retry && self.given;
        let (attempt, incoming) = (self.began.is_initiators(), self.began.is_responders());
        assert_eq!(self.replies == 1, attempt && told);
        let tells = incoming && !self.called;
        assert_eq!(self.established == 1, tells && self.given);
        let answered = incoming && !stage.is_responders();
        assert_eq!(self.slots, u32::from(answered));
        assert_eq!(self.answers, u32::from(answered) * self.reported);
        assert!(self.disconnects <= 1 && self.reported <= 1 && self.established <= 1);
    }

    /// What may happen next.
    fn nexts(&self) -> Vec<(Input, Self)> {
        let mut nexts = Vec::new();
        for input in Input::ALL {
            // A driver answers at once, and only if it is asked.
            let answer = match self.asked {
                [] => !ANSWERS.contains(input),
                asked => asked.contains(input),
            };
            if !answer {
                continue;
            }
            nexts.push((*input, self.clone()));
            if *input == Input::Timeout {
                let mut late = self.clone();
                late.seen.now = self.machine.deadline().unwrap_or(self.seen.now);
                nexts.push((*input, late.clone()));
                let mut moves = late.clone();
                moves.seen.acked += 1;
                moves.seen.received += 1;
                late.seen.orphaned = true;
                let mut over = self.clone();
                over.seen.now += 200_000;
                nexts.extend([moves, late, over].map(|state| (*input, state)));
            }
        }
        if self.asked.is_empty() {
            let mut started = self.clone();
            started.seen.peer_started = true;
            let mut leaving = self.clone();
            leaving.seen.leaving = true;
            let mut later = self.clone();
            later.seen.now += 100_000;
            nexts.extend([
                (Input::Leave, leaving),
                (Input::Timeout, started),
                (Input::Close, later),
            ]);
        }
        nexts
    }
}

/// All inputs in all orders, with and without progress of the peer, up to a length: iwcm is told in
/// order, no stage is without a way out, and the table has every transition and no other.
#[test]
fn any_order_of_inputs() {
    const STEPS: u32 = 6;
    let reply = Reply::Sent(1);
    let firsts = [
        First::Ours,
        First::OurRtr(0),
        First::Rtr,
        First::Call(0),
        First::Theirs { wait: 200, reply },
        First::Theirs { wait: 0, reply },
    ];
    let plans = [
        Plan::new(1, false, false, 100),
        Plan::new(2, true, false, 100),
        Plan::new(2, true, true, 0),
        Plan::new(2, true, false, 0).to_itself(),
    ];
    let seen = Seen::default();
    let mut todo: VecDeque<_> = firsts.map(|first| (0, State::new(first))).into();
    for plan in plans {
        let connecting = Machine::connecting(plan, &seen);
        todo.push_back((0, State::of(connecting, seen)));
        todo.push_back((0, State::of(Machine::await_turn(plan, &seen), seen)));
    }
    let incoming = Machine::await_octet(200, &seen);
    todo.push_back((0, State::of(incoming, seen)));
    todo.push_back((0, State::of(Machine::await_request(0, &seen), seen)));
    // These are not an input's.
    let begins = [
        "WAITS_FOR_TURN",
        "CONNECTS",
        "ACCEPTS_CONNECTION",
        "ACCEPTS_CONNECTION_FOR_MPA",
    ];
    let mut used = HashSet::from(begins);
    let mut known = HashSet::new();
    while let Some((steps, state)) = todo.pop_front() {
        for (input, mut next) in state.nexts() {
            if let Some(rule) = next.take(input) {
                used.insert(rule.name);
            }
            next.check();
            let stage = next.machine.stage();
            if steps == STEPS || stage == StageName::Closed {
                continue;
            }
            if stage == StageName::Retry {
                // The attempt's next connection.
                let plan = next.machine.into_plan().expect("a plan");
                next = State::of(Machine::connecting(plan, &next.seen), next.seen);
            }
            if known.insert(next.key()) {
                todo.push_back((steps + 1, next));
            }
        }
    }
    // It takes more than these steps to be refused four times: `suites::connecting`.
    used.insert("REFUSED_FOR_GOOD");
    let all: HashSet<_> = RULES.iter().map(|rule| rule.name).collect();
    let missing: Vec<_> = all.difference(&used).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// From any stage that ends, silence alone leads to the end within the times of the table.
#[test]
fn silence_ends_every_stage() {
    for way in [
        &[Input::Close][..],
        &[Input::PeerFin],
        &[Input::Close, Input::Drained, Input::FinSent],
        &[Input::Close, Input::Drained, Input::TryAgain],
        &[Input::Flush],
        &[Input::Flush, Input::NoRoom],
        &[Input::Flush, Input::TryAgain],
        &[Input::Flush, Input::FinSent],
        &[Input::Fault],
        &[Input::Fault, Input::PeerFin],
    ] {
        let mut state = State::new(First::Ours);
        for input in way {
            state.take(*input);
        }
        while state.machine.stage() != StageName::Closed {
            state.seen.now = state.machine.deadline().expect("a way out");
            assert!(state.seen.now <= i64::from(timeout::DRAIN), "{way:?}");
            state.take(Input::Timeout);
            if !state.asked.is_empty() {
                state.take(Input::TryAgain);
            }
        }
        assert_eq!(state.closes, 1);
    }
}
