// SPDX-License-Identifier: GPL-2.0

//! Nobody uses the connection any more, but the peer may still receive the last data.
//!
//! To release a socket that has unread data makes TCP send a reset, which may overtake the data
//! that was sent last. So the connection stays for a bounded time: what is left to send and the FIN
//! are delivered, and data from the peer is thrown away.

use super::{rules, timeout, transition::Transition, Input, Rule};

/// Nobody uses the connection any more.
#[derive(Clone, Debug)]
pub(super) struct Linger {
    /// Our FIN, and all that was in front of it, is with TCP.
    fin: bool,
    /// The peer's FIN has come.
    peer_done: bool,
    /// The time-out for which the timer runs: [`timeout::LINGER`], or [`timeout::SEND_AGAIN`]; 0 if
    /// it is over.
    wait: u32,
    /// How often the shorter one was over.
    tries: u32,
    /// Bytes that the peer had acknowledged when the wait began.
    acked: u64,
    /// How often the wait may begin anew.
    again: u32,
}

impl Linger {
    /// Begins to linger. What was acknowledged is what the driver saw before the FIN was sent: the
    /// peer may acknowledge the FIN at once, which is what its first wait is for.
    pub(super) fn begin(transition: &mut Transition<'_>) -> Self {
        transition.wait(timeout::LINGER);
        Self {
            fin: false,
            peer_done: false,
            wait: timeout::LINGER,
            tries: 0,
            acked: transition.seen.acked,
            again: timeout::LINGERS,
        }
    }

    /// Has the time go on if `wait` is its time-out already, whatever the peer sends; else sets it.
    fn wait(&mut self, wait: u32, transition: &mut Transition<'_>) {
        if self.wait != wait {
            self.wait = wait;
            transition.wait(wait);
        }
    }

    pub(super) fn handle(
        &mut self,
        input: Input,
        transition: &mut Transition<'_>,
    ) -> Option<&'static Rule> {
        Some(match input {
            Input::PeerFin if self.fin => &rules::LINGER_ENDS,
            Input::PeerFin => {
                self.peer_done = true;
                &rules::LINGER_PEER_CLOSES
            }
            Input::FinSent if self.peer_done => &rules::LINGER_ENDS_BY_FIN,
            Input::FinSent => {
                self.fin = true;
                self.wait(timeout::LINGER, transition);
                &rules::LINGER_FIN
            }
            Input::NoRoom => {
                self.wait(timeout::LINGER, transition);
                &rules::LINGER_NO_ROOM
            }
            Input::TryAgain => {
                self.wait(timeout::SEND_AGAIN, transition);
                &rules::LINGER_TRIES
            }
            Input::Room if !self.fin => &rules::LINGER_ROOM,
            Input::Abort => &rules::LINGER_ABORTED,
            Input::Broken => &rules::LINGER_BROKEN,
            Input::Timeout => self.time_out(transition),
            _ => return None,
        })
    }

    fn time_out(&mut self, transition: &mut Transition<'_>) -> &'static Rule {
        const TRIES: u32 = timeout::LINGER / timeout::SEND_AGAIN;
        self.tries = match self.wait {
            timeout::SEND_AGAIN => self.tries.saturating_add(1),
            _ => TRIES,
        };
        self.wait = 0;
        if self.tries >= TRIES {
            self.tries = 0;
            let acked = transition.seen.acked;
            if acked <= self.acked || self.again == 0 {
                return &rules::LINGER_LATE;
            }
            self.acked = acked;
            self.again = self.again.saturating_sub(1);
        }
        if self.fin {
            self.wait(timeout::LINGER, transition);
            &rules::LINGER_SLOW
        } else {
            &rules::LINGER_AGAIN
        }
    }
}
