// SPDX-License-Identifier: GPL-2.0

//! A queue pair owns the stream.

use super::{
    draining,
    first_fpdu::Silence,
    rules, timeout,
    transition::{Next, Transition},
    First, Input, Rule,
};

/// The queue pair owns the stream.
#[derive(Clone, Debug)]
pub(super) struct Streaming {
    /// The queue pair found a fault and is about to close.
    faulted: bool,
    first: First,
}

impl Streaming {
    /// Gives the stream to the queue pair. If the peer owes an RTR, it has to come soon.
    ///
    /// A peer that owes no RTR may be silent for as long as it likes. TCP's keep-alive probes show
    /// that it is there, and how long to wait for a message is left to the ULP (RFC 5044 section
    /// 7.1.2, rule 10).
    pub(super) fn begin(first: First, transition: &mut Transition<'_>) -> Self {
        let wait = match first {
            First::Ours => 0,
            First::OurRtr(_) => transition.silence,
            First::Rtr | First::Call(_) => timeout::RTR,
            First::Theirs { wait, .. } => wait,
        };
        match wait {
            0 => transition.no_wait(),
            wait => transition.wait(wait),
        }
        Self {
            faulted: false,
            first,
        }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        match input {
            Input::Fault => {
                self.faulted = true;
                transition.wait(timeout::TERMINATE);
                Some(&rules::FAULT)
            }
            Input::Broken | Input::PeerGone if self.is_lost_call(input, transition) => {
                Some(&rules::CALL_LOST)
            }
            Input::PeerFin => Some(self.drain(true, transition)),
            Input::Close => Some(self.drain(false, transition)),
            Input::Timeout => self.time_out(transition),
            _ => draining::end(input, transition),
        }
    }

    fn time_out(&mut self, transition: &mut Transition<'_>) -> Option<&'static Rule> {
        if self.faulted {
            return Some(&rules::TERMINATE_LATE);
        }
        let started = transition.seen.peer_started;
        match self.first {
            First::Call(_) if self.is_lost_call(Input::Timeout, transition) => {
                Some(&rules::CALL_LOST)
            }
            First::Rtr | First::Call(_) if !started => Some(&rules::RTR_LATE),
            First::Theirs { .. } if !started => match self.first.silence(transition) {
                Silence::No => None,
                Silence::Waits => Some(&rules::SILENT),
                Silence::Over => Some(&rules::SILENT_LONG),
            },
            First::OurRtr(before) if transition.seen.received == before => Some(&rules::RTR_MISSED),
            First::Rtr | First::Call(_) | First::Theirs { .. } | First::Ours | First::OurRtr(_) => {
                None
            }
        }
    }

    /// Whether the connection of a call ends, by `input`, before anything has come of it. The
    /// caller may never have had the Reply. It has sent nothing, as that would be an FPDU, or the
    /// part of one; and this end has not either, as the caller sends first.
    fn is_lost_call(&self, input: Input, transition: &Transition<'_>) -> bool {
        let First::Call(before) = self.first else {
            return false;
        };
        let seen = transition.seen;
        // TCP counts a FIN as a byte. This one is behind a whole FPDU, or there is none.
        let nothing = seen.received == before || input == Input::PeerGone;
        nothing && !seen.peer_started && !self.faulted
    }

    //= 5041-6.2.1-3: graceful teardown, DDP MUST indicate to the LLP that
    /// Begins the orderly close.
    fn drain(&mut self, peer_done: bool, transition: &mut Transition<'_>) -> &'static Rule {
        let silence = draining::silence(&mut self.first, self.faulted, transition);
        let rule = match (peer_done, silence == Silence::Over) {
            (true, false) => &rules::PEER_CLOSES,
            (true, true) => &rules::PEER_CLOSES_SILENTLY,
            (false, false) => &rules::CLOSES,
            (false, true) => &rules::CLOSES_AFTER_SILENCE,
        };
        let first = match silence {
            Silence::Waits => self.first,
            Silence::No | Silence::Over => First::Ours,
        };
        let next = Next::Draining {
            peer_done,
            faulted: self.faulted,
            first,
        };
        transition.go(rule, next)
    }
}
