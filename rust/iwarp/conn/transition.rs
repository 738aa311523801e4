// SPDX-License-Identifier: GPL-2.0

//! A transition, as the stage has it that handles an input.

use super::{timeout, First, Plan, Rule, Seen};

/// A transition: what it sees, the time that it sets, and where it leads.
pub(super) struct Transition<'a> {
    pub(super) seen: &'a Seen,
    /// The [`Seen::now`] at which the timer is to run out; `i64::MAX`: never.
    pub(super) deadline: i64,
    /// See [`Machine::silence`](super::Machine).
    pub(super) silence: u32,
    /// The next stage; none, if that is this one, or the connection is over.
    pub(super) next: Option<Next>,
}

/// The stage that a transition leads to, with what that begins with. What each of them is says
/// [`StageName`](super::StageName).
pub(super) enum Next {
    AwaitTlsSlot(Plan),
    Connecting(Plan),
    Backoff(Plan),
    Securing(Plan),
    AwaitReply(Plan),
    Retry(Plan),
    AwaitOctet,
    AwaitTls,
    /// With all its time, or with what is left of [`Next::AwaitOctet`]'s.
    AwaitRequest {
        anew: bool,
    },
    Queued,
    Requested,
    Parked,
    Streaming(First),
    Draining {
        /// The peer's FIN has come.
        peer_done: bool,
        /// The queue pair found a fault and is about to close.
        faulted: bool,
        /// What has to come before this end may send; [`First::Ours`], if nothing has.
        first: First,
    },
    FinSent,
    Linger,
}

impl Transition<'_> {
    /// Leads to another stage by `rule`.
    pub(super) fn go(&mut self, rule: &'static Rule, next: Next) -> &'static Rule {
        self.next = Some(next);
        rule
    }

    /// Sets the time-out of the stage to `ms` milliseconds from now, in place of an earlier one.
    pub(super) fn wait(&mut self, ms: u32) {
        self.deadline = self.seen.now.saturating_add(i64::from(ms));
    }

    /// As [`Transition::wait`], for an orderly close. While the device is being removed the time is
    /// at most [`timeout::LEAVE`], as the removal waits for one consumer after the other.
    pub(super) fn wait_for_close(&mut self, ms: u32) {
        self.wait(if self.seen.leaving {
            ms.min(timeout::LEAVE)
        } else {
            ms
        });
    }

    /// Sets no time-out for the stage.
    pub(super) fn no_wait(&mut self) {
        self.deadline = i64::MAX;
    }
}
