// SPDX-License-Identifier: GPL-2.0

//! The orderly close, up to the exchange of FINs.
//!
//! RDMAP's orderly close is TCP's: each end sends a FIN behind its last message. An end that
//! receives a FIN reports it (`DISCONNECT`), and sends its own when its queue pair has sent what it
//! still had.

use super::{
    first_fpdu::Silence,
    rules, timeout,
    transition::{Next, Transition},
    First, Input, Rule,
};

/// An orderly close has begun; the queue pair sends what it still has.
#[derive(Clone, Debug)]
pub(super) struct Draining {
    /// The peer's FIN has come.
    peer_done: bool,
    /// Bytes that the peer had acknowledged when the wait began.
    acked: u64,
    /// The queue pair has sent all. The FIN waits for room, and was tried so often. (Small, as each
    /// connection has it.)
    fin: Option<u16>,
    /// The queue pair found a fault and is about to close. A FIN now would cut off its Terminate.
    faulted: bool,
    /// Until this end may send, and then [`First::Ours`].
    first: First,
    /// When the close began.
    since: i64,
}

/// Our FIN is sent, or queued behind the last data; the peer's has not come.
#[derive(Clone, Debug)]
pub(super) struct FinSent {
    /// Bytes that the peer had sent when the wait began.
    received: u64,
}

/// The end of a stream that a queue pair owns, in whichever stage.
pub(super) fn end(input: Input, transition: &mut Transition<'_>) -> Option<&'static Rule> {
    Some(match input {
        Input::Abort => &rules::ABORTED,
        Input::Broken => &rules::BROKEN,
        Input::Cut => &rules::CUT,
        Input::PeerGone => &rules::PEER_LEAVES,
        Input::Flush => transition.go(&rules::FLUSHED, Next::Linger),
        _ => return None,
    })
}

/// Whether what is posted has to wait in an orderly close, as this end may not send yet; sets a
/// time-out then.
pub(super) fn silence(
    first: &mut First,
    faulted: bool,
    transition: &mut Transition<'_>,
) -> Silence {
    let seen = transition.seen;
    if faulted || seen.peer_started || seen.leaving {
        Silence::No
    } else {
        first.silence(transition)
    }
}

impl Draining {
    /// Begins the close. If this end may not send yet, the time-out is set.
    pub(super) fn begin(
        peer_done: bool,
        faulted: bool,
        first: First,
        transition: &mut Transition<'_>,
    ) -> Self {
        let mut draining = Self {
            peer_done,
            acked: 0,
            fin: None,
            faulted,
            first,
            since: transition.seen.now,
        };
        if first == First::Ours {
            draining.begin_wait(transition);
        }
        draining
    }

    /// As [`silence`], but waits no longer than for the queue pair.
    fn silence(&mut self, transition: &mut Transition<'_>) -> Silence {
        let passed = transition.seen.now.saturating_sub(self.since);
        if passed > i64::from(timeout::DRAIN) {
            return Silence::No;
        }
        silence(&mut self.first, self.faulted, transition)
    }

    /// Begins the wait for the queue pair: until it has sent all, or a Terminate.
    fn begin_wait(&mut self, transition: &mut Transition<'_>) {
        self.first = First::Ours;
        let (acked, ms) = if self.faulted {
            (u64::MAX, timeout::TERMINATE)
        } else {
            (transition.seen.acked, timeout::DRAIN)
        };
        self.acked = acked;
        transition.wait_for_close(ms);
    }

    /// Whether the FIN is to be sent as soon as there is room.
    fn wants_fin(&self) -> bool {
        self.fin.is_some() && !self.faulted
    }

    //= 5041-6.2.1-3
    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::Fault => {
                self.faulted = true;
                self.begin_wait(transition);
                &rules::FAULT_OF_CLOSE
            }
            Input::PeerFin if !self.peer_done => {
                self.peer_done = true;
                &rules::PEER_CLOSES_TOO
            }
            Input::Leave => {
                self.first = First::Ours;
                transition.wait_for_close(timeout::DRAIN);
                if self.wants_fin() {
                    &rules::LEAVES_WITH_FIN
                } else {
                    &rules::LEAVES
                }
            }
            Input::Drained => {
                self.fin.get_or_insert(0);
                // Nothing is left for which it had to wait.
                if self.first != First::Ours {
                    self.begin_wait(transition);
                }
                if self.faulted {
                    &rules::DRAINED_AFTER_FAULT
                } else {
                    &rules::DRAINED
                }
            }
            Input::TryAgain | Input::NoRoom if self.wants_fin() => {
                self.fin = self.fin.map(|tries| tries.saturating_add(1));
                transition.wait(timeout::SEND_AGAIN);
                &rules::FIN_WAITS
            }
            Input::FinSent if self.wants_fin() && self.peer_done => &rules::FIN_IS_LAST,
            Input::FinSent if self.wants_fin() => {
                transition.go(&rules::FIN_IS_FIRST, Next::FinSent)
            }
            Input::Timeout => self.time_out(transition),
            _ => return end(input, transition),
        })
    }

    fn time_out(&mut self, transition: &mut Transition<'_>) -> &'static Rule {
        if self.first != First::Ours {
            let rule = match self.silence(transition) {
                Silence::Waits => return &rules::CLOSE_WAITS,
                Silence::Over => &rules::CLOSE_MAY_START,
                Silence::No => &rules::CLOSE_STARTS,
            };
            self.begin_wait(transition);
            return rule;
        }
        let (acked, leaving) = (transition.seen.acked, transition.seen.leaving);
        let most = if leaving {
            timeout::LEAVE
        } else {
            timeout::DRAIN
        };
        let tried = |tries| u32::from(tries) >= most / timeout::SEND_AGAIN;
        if self.faulted || self.fin.is_none_or(tried) {
            if acked <= self.acked || leaving {
                return &rules::DRAINING_LATE;
            }
            // The peer is slow, but it takes data.
            (self.acked, self.fin) = (acked, self.fin.map(|_| 0));
        }
        transition.wait(timeout::DRAIN);
        if self.wants_fin() {
            &rules::FIN_AGAIN
        } else {
            &rules::DRAINING_SLOW
        }
    }
}

impl FinSent {
    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        transition.wait_for_close(timeout::FIN);
        let received = transition.seen.received;
        Self { received }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::PeerFin => &rules::BOTH_FINS,
            Input::Leave => {
                transition.wait_for_close(timeout::FIN);
                &rules::LEAVES_AFTER_FIN
            }
            Input::Timeout => {
                let received = transition.seen.received;
                if received <= self.received || transition.seen.leaving {
                    return Some(&rules::FIN_LATE);
                }
                // The peer still sends data.
                self.received = received;
                transition.wait(timeout::FIN);
                &rules::PEER_SENDS
            }
            _ => return end(input, transition),
        })
    }
}
