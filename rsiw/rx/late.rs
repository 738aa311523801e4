// SPDX-License-Identifier: GPL-2.0

//! A Send for which no receive is posted yet, and how long it may wait.
//!
//! iWARP answers such a Send by ending the stream. Programs that were written for InfiniBand rely
//! on its senders, which try again ("receiver not ready"). So the Send waits in the socket, and all
//! of the stream after it: TCP's window holds up the peer. A process posts receives into its
//! mapping without telling anybody. So a timer of the stream looks for them
//! (`Stream::late_timer`), and so does the process itself when it rings its doorbell.
//!
//! The time is `recv_wait_ms`; where programs connect queue pairs, what both have said of it, which
//! may be for ever ([`iwarp::conn::rnr`]). When it is over, the fault is the same that it would
//! have been at once. Sends to a kernel consumer do not wait: its receives are posted in time, or
//! its peer is at fault.

use iwarp::rx::Refusal;
use kernel::prelude::*;

/// Milliseconds to the timer's first look, and between looks in the first second. Then the time
/// between looks grows with the time that the Send has waited, to [`MAX_POLL_MS`]: a Send may wait
/// for ever.
const MIN_POLL_MS: u32 = 1;
const FIRST_POLL_MS: u32 = 16;
const MAX_POLL_MS: u32 = 512;

/// The Send that waits, if there is one.
pub(super) struct Late {
    /// When it began to wait, in milliseconds of a clock that wraps.
    since: Option<u32>,
}

impl Late {
    /// No Send waits.
    pub(super) const fn none() -> Self {
        Self { since: None }
    }

    /// Whether a Send waits.
    pub(super) fn waits(&self) -> bool {
        self.since.is_some()
    }

    /// Ends the wait: there is a receive, or the stream has ended.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    /// There is no receive, at time `now`, for a Send that may wait for `most` milliseconds.
    /// Returns the answer for the engine, and whether the wait begins now. When the time is over,
    /// the wait ends and the answer is the fault.
    pub(super) fn refuse(&mut self, most: u32, now: u32) -> (Refusal, bool) {
        let begins = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        if now.wrapping_sub(since) < most {
            return (Refusal::Wait, begins);
        }
        self.end();
        (Refusal::NoBuffer, false)
    }

    /// Milliseconds to the next look: few at first, then ever more. `None` only if no Send waits:
    /// if the time of one is over, its fault is found by the next look.
    pub(super) fn next_look(&self, most: u32, now: u32) -> Option<u32> {
        let waited = now.wrapping_sub(self.since?);
        let left = most.saturating_sub(waited).max(MIN_POLL_MS);
        let longest = (waited / 64).clamp(FIRST_POLL_MS, MAX_POLL_MS);
        Some(waited.clamp(MIN_POLL_MS, longest).min(left))
    }
}

#[kunit_tests(rsiw_rx_late)]
mod tests {
    use super::*;

    #[test]
    fn a_send_waits_until_its_time_is_over() {
        // The clock wraps meanwhile.
        let begin = u32::MAX - 5;
        let at = |ms: u32| begin.wrapping_add(ms);
        let mut late = Late::none();
        assert!(late.next_look(20, begin).is_none());
        assert!(late.refuse(20, begin) == (Refusal::Wait, true));
        assert!(late.waits());
        assert_eq!(late.next_look(20, begin), Some(MIN_POLL_MS));
        assert!(late.refuse(20, at(10)) == (Refusal::Wait, false));
        assert_eq!(late.next_look(20, at(10)), Some(10));
        assert_eq!(late.next_look(200, at(100)), Some(FIRST_POLL_MS));
        // A tick passes between the refusal and the look: the next look finds that the time is
        // over.
        assert!(late.refuse(20, at(19)) == (Refusal::Wait, false));
        assert_eq!(late.next_look(20, at(20)), Some(MIN_POLL_MS));
        assert_eq!(late.next_look(20, at(900)), Some(MIN_POLL_MS));
        assert!(late.refuse(20, at(24)) == (Refusal::NoBuffer, false));
        assert!(!late.waits());
        assert!(late.next_look(20, at(24)).is_none());
    }

    #[test]
    fn looks_for_a_long_wait_become_rare() {
        let mut late = Late::none();
        assert!(late.refuse(u32::MAX, 0) == (Refusal::Wait, true));
        assert_eq!(late.next_look(u32::MAX, 1000), Some(FIRST_POLL_MS));
        assert_eq!(late.next_look(u32::MAX, 6400), Some(100));
        assert_eq!(late.next_look(u32::MAX, u32::MAX - 1), Some(MIN_POLL_MS));
        assert_eq!(late.next_look(u32::MAX, u32::MAX / 2), Some(MAX_POLL_MS));
    }

    #[test]
    fn a_send_that_may_not_wait_does_not() {
        let mut late = Late::none();
        assert!(late.refuse(0, 7) == (Refusal::NoBuffer, false));
        assert!(!late.waits());
    }
}
