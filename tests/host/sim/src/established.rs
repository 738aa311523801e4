// SPDX-License-Identifier: GPL-2.0

//! Machines of connections that are established.

use iwarp::conn::{First, Input, Machine, Plan, Reply, Rule, Seen};

/// A connection that a queue pair has just got, which may send first as told, and the rule of the
/// last step: the setup has taken no time.
pub fn established(first: First, seen: &Seen) -> (Machine, &'static Rule) {
    const ATTEMPT: [Input; 2] = [Input::Connected, Input::Accepted];
    const INCOMING: [Input; 4] = [
        Input::RequestCame,
        Input::Turn,
        Input::Reported,
        Input::Accept,
    ];
    const CALL: [Input; 1] = [Input::Called];
    let mut seen = *seen;
    let (before, last) = match first {
        First::Ours => (&ATTEMPT[..], Input::Started),
        First::OurRtr(received) => {
            seen.received = received;
            (&ATTEMPT[..], Input::StartedWithRtr)
        }
        First::Rtr => (&INCOMING[..], Input::ReplySentForRtr),
        First::Call(received) => {
            seen.received = received;
            (&CALL[..], Input::ReplySentForRtr)
        }
        First::Theirs { reply, .. } => {
            if let Reply::Sent(end) = reply {
                seen.reply_end = end;
            }
            (&INCOMING[..], Input::ReplySent)
        }
    };
    let mut machine = match first {
        First::Ours | First::OurRtr(_) => {
            Machine::connecting(Plan::new(2, false, false, 100), &seen)
        }
        First::Rtr | First::Call(_) => Machine::await_request(0, &seen),
        First::Theirs { wait, .. } => Machine::await_request(wait, &seen),
    };
    for input in before {
        machine.handle(*input, &seen).expect("a step of the setup");
    }
    let rule = machine.handle(last, &seen).expect("the last step");
    (machine, rule)
}
