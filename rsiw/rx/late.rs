// SPDX-License-Identifier: GPL-2.0

//! A Send for which no receive is posted yet, and how long it may wait.
//!
//! iWARP has no answer to such a Send but the end of the stream. Programs that were written for
//! InfiniBand, whose senders try again ("receiver not ready"), rely on some time. So the Send, and
//! all of the stream behind it, waits in the socket: TCP's window holds up the peer. A process posts
//! receives into its mapping and tells nobody, so a timer of the connection looks for them
//! (`cm::conn`), and so does the process itself when it rings its doorbell.
//!
//! When the time is over, the fault is the one that it would have been at once. A kernel consumer's
//! Sends do not wait: its receives are there in time, or its peer is at fault.

use iwarp::rx::Refusal;

/// Milliseconds to the first look, and between looks at the most.
const FIRST: u32 = 1;
const LAST: u32 = 16;

/// The Send that waits, if there is one.
pub(super) struct Late {
    /// When it began to, in milliseconds of a clock that wraps.
    since: Option<u32>,
}

impl Late {
    /// None waits.
    pub(super) const fn none() -> Self {
        Self { since: None }
    }

    /// Whether one waits.
    pub(super) fn waits(&self) -> bool {
        self.since.is_some()
    }

    /// There is a receive for it, or the stream has ended.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// There is no receive for a Send that may wait for `most` milliseconds: what to tell the engine,
    /// and whether the wait begins with this.
    pub(super) fn refuse(&mut self, most: u32) -> (Refusal, bool) {
        if most == 0 {
            return (Refusal::NoBuffer, false);
        }
        let begins = self.since.is_none();
        let since = *self.since.get_or_insert_with(rdma::jiffies_ms);
        match rdma::jiffies_ms().wrapping_sub(since) < most {
            true => (Refusal::Wait, begins),
            false => (Refusal::NoBuffer, false),
        }
    }

    /// In how many milliseconds to look again: soon at first, then ever later. None if nothing waits,
    /// or its time is over: then the fault is known, and waits for the rest of its FPDU at the most.
    pub(super) fn next_look(&self, most: u32) -> Option<u32> {
        let waited = rdma::jiffies_ms().wrapping_sub(self.since?);
        let left = most.checked_sub(waited).filter(|left| *left != 0)?;
        Some(waited.clamp(FIRST, LAST).min(left))
    }
}
