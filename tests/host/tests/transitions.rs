// SPDX-License-Identifier: GPL-2.0

//! The table of a connection's transitions: every rule of it comes about, nothing else does, and
//! Documentation/connection.md shows it (`UPDATE=1 cargo test --test transitions` writes it there).

use iwarp::conn::{timeout, Action, First, Input, Machine, Reply, Rule, Seen, StageName, RULES};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt::Write;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../Documentation/connection.md"
);
const BEGIN: &str = "<!-- transitions: tests/host/tests/transitions.rs writes this -->\n";
const END: &str = "<!-- end of transitions -->\n";

/// Names of stages, inputs or actions.
fn names(list: impl IntoIterator<Item = impl std::fmt::Debug>) -> String {
    let names: Vec<_> = list.into_iter().map(|name| format!("`{name:?}`")).collect();
    names.join(", ")
}

/// Which stage leads to which, by which inputs.
fn diagram() -> String {
    let mut text = String::from("```text\n");
    let mut ways: Vec<(StageName, StageName, BTreeSet<&str>)> = Vec::new();
    let order = [
        StageName::New,
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
        let on = format!(" {} ", on.join(", "));
        writeln!(text, "{from:>10} --{on:-<42}> {to:?}").expect("a string takes all");
    }
    text + "```\n"
}

fn table() -> String {
    let mut text = String::from("| in | on | if | does | then |\n|---|---|---|---|---|\n");
    for rule in RULES {
        let from = match rule.from {
            [StageName::New] => String::new(),
            from => names(from),
        };
        let on: Vec<_> = rule.on.iter().map(|on| format!("`{on}`")).collect();
        let (on, when, actions) = (on.join(", "), rule.when, names(rule.actions));
        writeln!(
            text,
            "| {from} | {on} | {when} | {actions} | `{:?}` |",
            rule.to
        )
        .expect("a string takes all");
    }
    text
}

#[test]
fn connection_md_has_the_table() {
    let page = std::fs::read_to_string(PAGE).expect("connection.md");
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let new = format!("{before}{BEGIN}\n{}\n{}\n{END}{after}", diagram(), table());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, new).expect("connection.md can be written");
    } else {
        assert!(new == page, "UPDATE=1 cargo test --test transitions");
    }
}

/// A connection on the way of the search, and what iwcm was told of it.
#[derive(Clone)]
struct State {
    machine: Machine,
    seen: Seen,
    disconnects: u32,
    closes: u32,
    detached: u32,
    /// The answer that the machine waits for.
    asked: bool,
}

impl State {
    fn new(first: First) -> Self {
        let seen = Seen::default();
        let (machine, _) = Machine::streaming(first, 100, &seen);
        Self {
            machine,
            seen,
            disconnects: 0,
            closes: 0,
            detached: 0,
            asked: false,
        }
    }

    /// What tells states apart: times only by what is left.
    fn key(&self) -> String {
        let mut machine = format!("{:?}", self.machine);
        for time in [self.seen.now, self.seen.now + 200] {
            machine = machine.replace(&time.to_string(), "now");
        }
        let deadline = self.machine.deadline().map(|end| end - self.seen.now);
        let told = (self.disconnects, self.closes, self.detached, self.asked);
        format!("{machine} {deadline:?} {told:?} {:?}", self.seen)
    }

    fn take(&mut self, input: Input) -> Option<&'static Rule> {
        let from = self.machine.stage();
        let rule = self.machine.handle(input, &self.seen)?;
        assert!(rule.from.contains(&from), "{from:?}: {rule:?}");
        assert!(
            rule.on.contains(&&*format!("{input:?}")),
            "{input:?}: {rule:?}"
        );
        assert_eq!(rule.to, self.machine.stage(), "{rule:?}");
        for action in rule.actions {
            assert_eq!(self.detached, 0, "{action:?} of a connection that is over");
            match action {
                Action::ReportDisconnect => self.disconnects += 1,
                Action::ReportClose(_) => self.closes += 1,
                _ => {}
            }
            assert!(self.closes == 0 || *action != Action::ReportDisconnect);
        }
        self.asked = rule.actions.contains(&Action::SendFin);
        if self.machine.stage() == StageName::Closed {
            self.detached += 1;
        }
        Some(rule)
    }
}

/// All inputs in all orders, with and without progress of the peer, up to a length: iwcm is told in
/// order, no stage is without a way out, and the table has every transition and no other.
#[test]
fn any_order_of_inputs() {
    const STEPS: u32 = 7;
    let reply = Reply::Sent(1);
    let firsts = [
        First::Ours,
        First::OurRtr(0),
        First::Rtr,
        First::Theirs { wait: 200, reply },
        First::Theirs { wait: 0, reply },
    ];
    let mut used = HashSet::from(["ESTABLISHED", "LAST_WORDS"]);
    let mut known = HashSet::new();
    let mut todo: VecDeque<_> = firsts.map(|first| (0, State::new(first))).into();
    while let Some((steps, state)) = todo.pop_front() {
        let mut nexts = Vec::new();
        for input in Input::ALL {
            let answers = [Input::FinSent, Input::NoRoom, Input::TryAgain];
            // A driver answers at once, and only if it is asked.
            if state.asked != answers.contains(input)
                && (state.asked, *input) != (true, Input::Broken)
            {
                continue;
            }
            nexts.push((*input, state.clone()));
            if *input == Input::Timeout {
                let due = |state: &State| state.machine.deadline().unwrap_or(state.seen.now);
                let mut late = state.clone();
                late.seen.now = due(&late);
                nexts.push((*input, late.clone()));
                (late.seen.acked, late.seen.received) =
                    (late.seen.acked + 1, late.seen.received + 1);
                nexts.push((*input, late));
            }
        }
        let mut other = state.clone();
        other.seen.peer_started = true;
        let mut leaving = state.clone();
        leaving.seen.leaving = true;
        nexts.push((Input::Leave, leaving));
        let mut later = state.clone();
        later.seen.now += 100_000;
        nexts.extend([(Input::Timeout, other), (Input::Close, later)]);
        for (input, mut next) in nexts {
            if let Some(rule) = next.take(input) {
                used.insert(rule.name);
            }
            let stage = next.machine.stage();
            let waits = next.machine.deadline().is_some();
            let bounded = [StageName::Draining, StageName::FinSent, StageName::Linger];
            assert!(
                waits || next.asked || !bounded.contains(&stage),
                "{:?}",
                next.machine
            );
            assert_eq!(
                next.closes == 1,
                [StageName::Closed, StageName::Linger].contains(&stage)
            );
            assert!(next.disconnects <= 1);
            if steps < STEPS && stage != StageName::Closed && known.insert(next.key()) {
                todo.push_back((steps + 1, next));
            }
        }
    }
    // What takes more steps than this search: hundreds of tries.
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
            if state.asked {
                state.take(Input::TryAgain);
            }
        }
        assert_eq!(state.closes, 1);
    }
}
