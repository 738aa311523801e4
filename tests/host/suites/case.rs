// SPDX-License-Identifier: GPL-2.0

//! A connection's machine that a case gives inputs, and what it sees.

use iwarp::conn::{Action, First, Input, Machine, Plan, Reply, Rule, Seen, StageName};

use super::Failed;

/// A machine, and what it sees.
pub(super) struct Case {
    pub(super) machine: Machine,
    pub(super) seen: Seen,
}

/// Each connection begins at 1000 ms.
fn seen() -> Seen {
    Seen {
        now: 1000,
        ..Seen::default()
    }
}

impl Case {
    fn begins(machine: impl FnOnce(&Seen) -> Machine) -> Self {
        let seen = seen();
        Self {
            machine: machine(&seen),
            seen,
        }
    }

    /// An attempt that TCP begins to connect.
    pub(super) fn of(plan: Plan) -> Self {
        Self::begins(|seen| Machine::connecting(plan, seen))
    }

    /// An attempt that waits for its turn to make a TLS handshake.
    pub(super) fn waiting_for_turn(plan: Plan) -> Self {
        Self::begins(|seen| Machine::await_turn(plan, seen))
    }

    /// A connection that a listener has accepted, whose peer may begin with TLS.
    pub(super) fn accepted() -> Self {
        Self::begins(|seen| Machine::await_octet(200, seen))
    }

    /// The same, of a listener without TLS. The peer may be silent behind the Reply for `silence`
    /// milliseconds.
    pub(super) fn accepted_for_mpa(silence: u32) -> Self {
        Self::begins(|seen| Machine::await_request(silence, seen))
    }

    /// A connection whose Request the consumer has, which owes an answer.
    pub(super) fn requested(silence: u32) -> Self {
        let mut case = Self::accepted_for_mpa(silence);
        for input in [Input::RequestCame, Input::Turn, Input::Reported] {
            let _ = case.gives(input);
        }
        case
    }

    /// A connection that is a queue pair's, by the way that leads to this `first`.
    pub(super) fn streaming(first: First) -> Self {
        let attempt = || {
            let mut case = Self::of(Plan::new(2, false, false, 100));
            let _ = case.gives(Input::Connected);
            case
        };
        let (mut case, seen, inputs) = match first {
            First::Ours => (attempt(), seen(), [Input::Accepted, Input::Started]),
            First::OurRtr(received) => (
                attempt(),
                Seen { received, ..seen() },
                [Input::Accepted, Input::StartedWithRtr],
            ),
            First::Rtr => (
                Self::requested(0),
                seen(),
                [Input::Accept, Input::ReplySentForRtr],
            ),
            First::Call(received) => (
                Self::accepted_for_mpa(0),
                Seen { received, ..seen() },
                [Input::Called, Input::ReplySentForRtr],
            ),
            First::Theirs { wait, reply } => (
                Self::requested(wait),
                Seen {
                    reply_end: match reply {
                        Reply::Sent(end) => end,
                        Reply::Acked(_) => 0,
                    },
                    ..seen()
                },
                [Input::Accept, Input::ReplySent],
            ),
        };
        for input in inputs {
            let _ = case.machine.handle(input, &seen);
        }
        case
    }

    pub(super) fn gives(&mut self, input: Input) -> Option<&'static Rule> {
        self.machine.handle(input, &self.seen)
    }

    /// Whether an input leads to a stage by a rule with these actions.
    pub(super) fn leads(&mut self, input: Input, to: StageName, actions: &[Action]) -> bool {
        let rule = self.gives(input);
        self.stage() == to && rule.is_some_and(|rule| rule.actions == actions)
    }

    pub(super) fn stage(&self) -> StageName {
        self.machine.stage()
    }

    /// Milliseconds until the timer runs out.
    pub(super) fn left(&self) -> Option<i64> {
        self.machine.deadline().map(|end| end - self.seen.now)
    }

    /// Goes to the time of the timer, which has to be `ms` milliseconds from now.
    pub(super) fn waits(&mut self, ms: i64) -> bool {
        let left = self.left();
        self.seen.now += ms;
        left == Some(ms)
    }

    /// Lets the timer run out again and again, each time `late`, until the stage is over or 300 s
    /// are. Returns how long that took.
    pub(super) fn passes(&mut self, late: i64) -> i64 {
        let (began, stage) = (self.seen.now, self.stage());
        while self.stage() == stage && self.seen.now < began + 300_000 {
            self.seen.now = self.machine.deadline().unwrap_or(i64::MAX / 2) + late;
            let _ = self.gives(Input::Timeout);
        }
        self.seen.now - began
    }

    /// The attempt's next connection, and its plan.
    pub(super) fn again(self) -> Result<(Self, Plan), Failed> {
        let seen = self.seen;
        let plan = self.machine.into_plan().ok_or(Failed {
            line: line!(),
            what: "the attempt goes on with another connection",
        })?;
        let machine = Machine::connecting(plan, &seen);
        Ok((Self { machine, seen }, plan))
    }
}
