// SPDX-License-Identifier: GPL-2.0

//! The run of an attempt: time, the network, and what the drivers of both ends do.

use super::side::{Message, Side};
use super::{Dial, Knows, Tls};
use crate::follow;
use iwarp::conn::{
    timeout, Action, Input, Lost, Machine, Plan, Report, Rule, Seen, SetUp, StageName,
};

/// What came of an attempt.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The attempt's connections, and the responder's, where there is one.
    pub sides: Vec<(Side, Option<Side>)>,
    /// When the consumer was told, and what.
    pub report: Option<(i64, Report)>,
    /// When nothing happens any more.
    pub now: i64,
}

/// A queue pair that is called by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Called {
    /// It expects its peer.
    Expects,
    /// It has this connection.
    Has(usize),
    /// It has had its only one.
    Spent,
}

/// An attempt under way.
struct Run<'a> {
    dial: &'a Dial,
    now: i64,
    sides: Vec<(Side, Option<Side>)>,
    report: Option<(i64, Report)>,
    called: Called,
    /// How often the peer was called in vain, and when it is called next.
    tries: u32,
    again: Option<i64>,
}

/// Runs an attempt until nothing happens any more, but for what an established connection does
/// when its peer is silent.
pub fn run(dial: &Dial) -> Outcome {
    let mut run = Run {
        dial,
        now: 0,
        sides: Vec::new(),
        report: None,
        called: Called::Expects,
        tries: 0,
        again: None,
    };
    run.begin(dial.plan);
    let (mut event, mut breaks) = (dial.event, dial.breaks);
    loop {
        for rounds in 0.. {
            assert!(rounds < 1000, "it does not end: {:?}", run.sides);
            if !run.happens() {
                break;
            }
        }
        let breaks_at = breaks.map_or(i64::MAX, |breaks| breaks.0);
        let events = event.map_or(i64::MAX, |event| event.0);
        let events = events.min(breaks_at).min(run.again.unwrap_or(i64::MAX));
        let sides = run
            .sides
            .iter()
            .flat_map(|(ours, theirs)| [Some(ours), theirs.as_ref()]);
        let next = sides
            .flatten()
            .map(|side| side.next_time(dial.jitter))
            .min();
        let next = next.unwrap_or(i64::MAX).min(events.max(run.now));
        if next == i64::MAX {
            break;
        }
        run.now = run.now.max(next);
        if let Some((_, end, input)) = event.take_if(|event| event.0 <= run.now) {
            run.event(end, input);
        }
        if let Some((_, heard)) = breaks.take_if(|breaks| breaks.0 <= run.now) {
            run.breaks(heard);
        }
        if run.again.take_if(|again| *again <= run.now).is_some() {
            run.begin(dial.plan);
        }
    }
    Outcome {
        sides: run.sides,
        report: run.report,
        now: run.now,
    }
}

impl Run<'_> {
    /// Begins a connection of the attempt.
    fn begin(&mut self, plan: Plan) {
        let most = if self.dial.call { 30 } else { 6 };
        assert!(self.sides.len() < most, "it does not end: {:?}", self.sides);
        let seen = Seen {
            now: self.now,
            ..Seen::default()
        };
        let mut side = if plan.secure {
            Side::new(Machine::await_turn(plan, &seen), self.now)
        } else {
            Side::new(Machine::connecting(plan, &seen), self.now)
        };
        if plan.secure {
            side.say(self.now, Some((self.dial.place, Input::Turn)));
        }
        self.sides.push((side, None));
        if !plan.secure {
            self.connect();
        }
    }

    /// TCP connects the last connection.
    fn connect(&mut self) {
        if self.now >= self.dial.lost_at {
            return;
        }
        let there = self.now + self.dial.delay;
        let back = there + self.dial.delay;
        let (ours, theirs) = self.sides.last_mut().expect("a connection");
        let listens = there >= self.dial.listens_at && there < self.dial.lost_at;
        if listens {
            let seen = Seen {
                now: there,
                ..Seen::default()
            };
            let machine = match self.dial.tls {
                Tls::No => Machine::await_request(200, &seen),
                _ => Machine::await_octet(200, &seen),
            };
            *theirs = Some(Side::new(machine, there));
        }
        if there < self.dial.lost_at {
            let answer = if listens {
                Message::Connected
            } else {
                Message::Reset
            };
            ours.under_way.push_back((back, answer));
        }
    }

    fn event(&mut self, end: usize, input: Input) {
        for at in 0..self.sides.len() {
            if self.side(at, end).is_some_and(|side| !side.detached) {
                self.input(at, end, input);
            }
        }
    }

    /// The last connection breaks: what is under way is lost, and nothing is sent any more.
    fn breaks(&mut self, heard: bool) {
        let now = self.now;
        let last = self.sides.len() - 1;
        for (end, hears) in [(0, true), (1, heard)] {
            let Some(side) = self.side(last, end).filter(|side| !side.detached) else {
                continue;
            };
            side.under_way.clear();
            (side.said_end, side.reset) = (true, true);
            // The responder's may not have begun.
            let from = now.max(side.seen.now);
            if hears {
                side.under_way.push_back((from, Message::Reset));
            } else {
                side.loses(from);
            }
        }
    }

    fn side(&mut self, at: usize, end: usize) -> Option<&mut Side> {
        let (ours, theirs) = &mut self.sides[at];
        if end == 0 {
            Some(ours)
        } else {
            theirs.as_mut()
        }
    }

    /// Whether anything has happened now.
    fn happens(&mut self) -> bool {
        for at in 0..self.sides.len() {
            for end in 0..2 {
                let (dial, now) = (self.dial, self.now);
                let side = self.side(at, end).filter(|side| side.seen.now <= now);
                if let Some(input) = side.and_then(|side| side.happens(dial, now)) {
                    self.input(at, end, input);
                    return true;
                }
            }
        }
        false
    }

    fn input(&mut self, at: usize, end: usize, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let now = self.now;
            let side = self.side(at, end).expect("a side");
            side.seen.now = now;
            let seen = side.seen;
            let Some(rule) = follow(&mut side.machine, input, &seen) else {
                return;
            };
            next = self.execute(at, end, rule);
        }
        let side = self.side(at, end).expect("a side");
        let waits = side.machine.deadline().is_some();
        let settled = [StageName::Streaming, StageName::Closed, StageName::Retry];
        assert!(
            waits || settled.contains(&side.stage()),
            "no way out: {side:?}"
        );
        if end == 0 && side.stage() == StageName::Retry {
            let plan = side.machine.clone().into_plan().expect("a plan");
            self.begin(plan);
        }
    }

    /// An end sends, unless it has ended its stream.
    fn send(&mut self, at: usize, end: usize, message: Message) {
        let Dial {
            delay,
            parts,
            lost_at,
            ..
        } = *self.dial;
        let now = self.now;
        let side = self.side(at, end).expect("a side");
        let ends = matches!(message, Message::Fin | Message::Reset);
        if side.reset || side.said_end && message != Message::Reset {
            return;
        }
        if now + delay >= lost_at && message != Message::Reset {
            side.loses(now);
        }
        side.said_end |= ends;
        side.reset |= message == Message::Reset;
        let Some(peer) = self.side(at, 1 - end) else {
            return;
        };
        if now >= lost_at {
            return;
        }
        let last = peer.under_way.back().map_or(0, |one| one.0);
        let mut comes = (now + delay).max(last);
        let of_tls = matches!(message, Message::Hello | Message::Finished);
        if parts != 0 && !ends && !of_tls {
            peer.under_way.push_back((comes, Message::Part));
            comes += parts;
        }
        if comes < lost_at {
            peer.under_way.push_back((comes, message));
        }
    }

    fn execute(&mut self, at: usize, end: usize, rule: &'static Rule) -> Option<Input> {
        let mut answer = None;
        let (now, calls) = (self.now, self.dial.call);
        for action in rule.actions {
            let side = self.side(at, end).expect("a side");
            assert!(!side.detached || !matches!(action, Action::SetUp(SetUp::ReportRequest)));
            side.log.push((now, *action));
            let told = match action {
                Action::SetUp(setup) => self.set_up(at, end, *setup),
                Action::ReportReply(report) if calls && *report != Report::Connected => {
                    self.again = Some(now + i64::from(timeout::call_again(self.tries)));
                    self.tries += 1;
                    None
                }
                Action::Lose(why) if end == 1 => {
                    self.loses_call(at, *why);
                    None
                }
                Action::ReportReply(report) => {
                    assert!(self.report.is_none(), "one CONNECT_REPLY");
                    self.report = Some((now, *report));
                    None
                }
                Action::Detach => {
                    side.detached = true;
                    None
                }
                Action::Reset => {
                    self.send(at, end, Message::Reset);
                    None
                }
                Action::SendFin => {
                    self.send(at, end, Message::Fin);
                    Some(Input::FinSent)
                }
                Action::Drain => {
                    side.say(now, Some((0, Input::Drained)));
                    None
                }
                // Probes of the peer.
                Action::Watch if self.dial.lost_at < i64::MAX => {
                    let from = self.dial.lost_at.max(now);
                    self.side(at, end).expect("a side").loses(from);
                    None
                }
                Action::RepeatRtr => {
                    self.send(at, end, Message::Rtr);
                    None
                }
                _ => None,
            };
            answer = told.or(answer);
        }
        answer
    }

    fn set_up(&mut self, at: usize, end: usize, setup: SetUp) -> Option<Input> {
        let (dial, now) = (self.dial, self.now);
        let side = self.side(at, end).expect("a side");
        match setup {
            SetUp::Connect => {
                self.connect();
                None
            }
            SetUp::AwaitPlace => {
                side.say(now, Some((dial.place, Input::Turn)));
                None
            }
            SetUp::StartTls => {
                side.securing = true;
                if end == 0 {
                    self.send(at, end, Message::Hello);
                } else {
                    assert_eq!(side.came.pop_front(), Some(Message::Hello));
                    side.say(now, Some((dial.handshake, Input::TlsDone)));
                }
                Some(Input::TlsStarted)
            }
            SetUp::AttachTls => {
                if end == 1 {
                    self.send(at, end, Message::Finished);
                }
                Some(Input::Secured)
            }
            SetUp::SendRequest => {
                let plan = self.plan_of(at);
                self.send(at, end, Message::Request(plan.revision, plan.large_fpdu));
                None
            }
            SetUp::StartQueuePair if dial.rtr => {
                self.send(at, end, Message::Rtr);
                Some(Input::StartedWithRtr)
            }
            SetUp::StartQueuePair => Some(Input::Started),
            SetUp::SendTerminate => Some(Input::TerminateSent),
            SetUp::Queue => {
                side.say(now, dial.queue.map(|ms| (ms, Input::Turn)));
                Some(Input::NoTurn)
            }
            SetUp::ReportRequest => {
                side.say(now, dial.answer);
                Some(Input::Reported)
            }
            SetUp::Accept => {
                let format = match dial.knows {
                    Knows::OldFormat if self.plan_of(at).revision != 1 => Input::OldFormat,
                    _ => Input::Accepted,
                };
                self.send(at, end, Message::Reply(format));
                Some(if dial.rtr {
                    Input::ReplySentForRtr
                } else {
                    Input::ReplySent
                })
            }
            SetUp::Admit if self.called == Called::Expects => {
                self.called = Called::Has(at);
                self.send(at, end, Message::Reply(Input::Accepted));
                Some(Input::ReplySentForRtr)
            }
            SetUp::Admit => Some(Input::NotExpected),
            SetUp::SendRejection => {
                self.send(at, end, Message::Reply(Input::Rejected));
                Some(Input::RejectionSent)
            }
            _ => None,
        }
    }

    /// The queue pair that is called loses a connection.
    fn loses_call(&mut self, at: usize, why: Lost) {
        if self.called != Called::Has(at) {
            return;
        }
        self.called = match why {
            Lost::Call => Called::Expects,
            _ => Called::Spent,
        };
        let now = self.now;
        let theirs = self.sides.iter_mut().filter_map(|side| side.1.as_mut());
        for side in theirs.filter(|side| side.stage() == StageName::Parked) {
            side.say(now, Some((0, Input::Turn)));
        }
    }

    /// The plan by which a connection was begun: the attempt's, with less of it each time.
    fn plan_of(&self, at: usize) -> Plan {
        let mut plans = self.sides[..at]
            .iter()
            .filter_map(|side| side.0.machine.clone().into_plan());
        plans.next_back().unwrap_or(self.dial.plan)
    }
}
