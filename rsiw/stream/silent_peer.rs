// SPDX-License-Identifier: GPL-2.0

//! A peer of which nothing comes any more, for a queue pair that its program connects itself.
//!
//! A host that has died, or that no packet reaches, says nothing. InfiniBand's requester sends
//! again as often as its program has allowed, and fails the request then; TCP sends again for a
//! quarter of an hour. So a timer looks at the peer while requests of this end are under way. If
//! nothing was acknowledged for twice the time of the program, the requests fail, and the
//! connection ends. If they have completed, as Sends do that TCP has taken, the queue pair fails
//! all the same: its receives are flushed, and the program knows.
//!
//! Any acknowledgment counts, also that of a probe: a Send may wait for its receive for ever,
//! which closes TCP's window. So TCP must not wait for too long between its probes, and its own
//! limit (`user_timeout_ms`), which would end such a connection, is not set. If TCP has all
//! acknowledged, and a request waits for its answer, an empty RDMA Write asks for an
//! acknowledgment.
//!
//! Twice, as TCP itself may give up after half of that, where the window was closed while data
//! were under way. The timer finds out late, and never early: InfiniBand's may take four times
//! what was set.

use super::{Silence, Stream, Teardown};
use crate::cm::{Close, User};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{prelude::*, sync::Arc};

/// Milliseconds that a peer has at the least: after these TCP has sent again five times, though it
/// doubles the time between, from a fifth of a second on.
const LEAST_MS: u32 = 10_000;

/// The same where no time of a program is set: TCP sends again, and acknowledges, a fifth of a
/// second later at the earliest.
const LEAST_USER_TIMEOUT_MS: u32 = 1_000;

/// How often the timer looks in that time.
const LOOKS: u32 = 8;

/// By how many milliseconds the times of two events may be wrong, of which one is a timer's.
const GRAIN_MS: u32 = 20;

/// Milliseconds between two looks that do not show, however short the time is, that this host was
/// held up.
const PROMPT_MS: u32 = 1_000;

impl Silence {
    const fn new(since: u32, most: u32) -> Self {
        Self {
            since,
            silent: 0,
            in_flight: false,
            most,
        }
    }

    /// Another look has found nothing new of the peer. Returns how much of the time counts.
    fn goes_on(&mut self, now: u32, in_flight: bool) -> u32 {
        let mut silent = now.wrapping_sub(self.since);
        if silent.saturating_sub(self.silent) > (self.most / 4).max(PROMPT_MS) {
            // The look is late. What the peer has said may still be on its way through this host.
            silent = self.silent;
        } else if !(self.in_flight && in_flight) {
            // It has half of the time for the first thing that it has to acknowledge.
            silent = silent.min(self.most / 2);
        }
        self.since = now.wrapping_sub(silent);
        (self.silent, self.in_flight) = (silent, in_flight);
        silent
    }

    /// Whether the peer's last acknowledgment, of `ms` ago, has ended it.
    fn is_over(&self, now: u32, ms: u32) -> bool {
        ms < now.wrapping_sub(self.since).saturating_add(GRAIN_MS)
    }
}

/// What a look has found.
#[derive(PartialEq, Eq, Debug)]
enum Found {
    /// The peer has time left: look again after so many milliseconds.
    Time(u32),
    /// Half of the time is over.
    Half(u32),
    /// All of it.
    Over,
}

/// The peer has said nothing for `silent` of `most` milliseconds.
fn find(silent: u32, most: u32) -> Found {
    let left = most.saturating_sub(silent.saturating_sub(GRAIN_MS));
    let next = left.min(most / LOOKS).max(1);
    match left {
        0 => Found::Over,
        _ if silent >= most / 2 => Found::Half(next),
        _ => Found::Time(next),
    }
}

impl Stream {
    /// Tx has sent requests, or tries to: looks after the peer. Context: any, tx locked.
    #[inline]
    pub(super) fn watch_peer(self: &Arc<Self>) {
        if !self.watched.load(Relaxed) {
            self.begin_watch();
        }
    }

    /// The next run of tx looks after the peer. Context: any.
    pub(super) fn end_watch(&self) {
        self.watched.store(!self.dev().is_rc(), Relaxed);
    }

    #[cold]
    fn begin_watch(self: &Arc<Self>) {
        self.watched.store(true, Relaxed);
        // If there is no limit, the mark stays until the program sets one.
        if let Some((most, _)) = self.longest_silence() {
            self.arm_retry(most / LOOKS);
        }
    }

    /// For how many milliseconds the peer may say nothing, and whether requests fail then, or only
    /// the connection. Context: any.
    fn longest_silence(&self) -> Option<(u32, bool)> {
        if !self.dev().is_rc() {
            return None;
        }
        let retry_ms = self.limits.lock().retry_ms;
        if let Some(ms) = retry_ms.filter(|_| self.is_reliable()) {
            let most = ms.saturating_mul(2).clamp(LEAST_MS, i32::MAX as u32);
            return Some((most, true));
        }
        let ms = self.dev().settings.user_timeout_ms();
        (ms != 0).then_some((ms.max(LEAST_USER_TIMEOUT_MS), false))
    }

    /// The timer's look at the peer of a connection. Returns true if the requests fail. Context:
    /// sleeping, `teardown` locked.
    pub(super) fn look_at_peer(self: &Arc<Self>, end: &mut Teardown) -> bool {
        let (true, Some(conn)) = (end.connected, self.conn()) else {
            self.end_watch();
            return false;
        };
        let Some((most, fails)) = self.longest_silence() else {
            return false;
        };
        let (socket, now) = (conn.socket(), kext::jiffies_ms());
        // Before the look at what is acknowledged.
        let in_flight = socket.unacked() != 0;
        // That of another limit does not count.
        let last = end.silence.take().filter(|last| last.most == most);
        if (last.as_ref()).is_some_and(|last| last.is_over(now, socket.last_ack_ms())) {
            // What is under way now may have been sent later than that.
            end.silence = Some(Silence::new(now, most));
            self.arm_retry(most / LOOKS);
            return false;
        }
        // With tx locked, so that one that sends another request sees the mark as it is left here.
        let waits = self.with_tx(|_| {
            let sq = &self.queues.sq;
            let oldest = sq.oldest();
            // What is not acknowledged may be answers to the peer, which this end does not miss,
            // unless a request was sent since the last rest.
            let sent = oldest != end.at_rest && socket.unacked() != 0;
            let waits = sent || !sq.is_idle();
            self.watched.store(waits, Relaxed);
            if !waits {
                end.at_rest = oldest;
            }
            waits
        });
        if !waits {
            return false;
        }
        // So that some tries fall into the time, and not so many that TCP gives up before.
        socket.set_rto_max(most / 4);
        let mut silence = last.unwrap_or(Silence::new(now, most));
        let silent = silence.goes_on(now, in_flight);
        end.silence = Some(silence);
        match find(silent, most) {
            Found::Time(ms) => self.arm_retry(ms),
            Found::Half(ms) => {
                if socket.unacked() == 0 {
                    self.repeat_rtr();
                }
                self.arm_retry(ms);
            }
            Found::Over => {
                end.silence = None;
                self.close_conn(Close::Abort);
                return fails;
            }
        }
        false
    }
}

#[kunit_tests(rsiw_stream_silent)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_time_to_acknowledge() {
        let mut silence = Silence::new(1_000, 16_000);
        assert_eq!(silence.goes_on(3_000, false), 2_000);
        assert_eq!(silence.goes_on(7_000, false), 6_000);
        // It was not asked for anything.
        assert_eq!(silence.goes_on(10_000, false), 8_000);
        assert_eq!(silence.goes_on(12_000, true), 8_000);
        assert_eq!(silence.goes_on(14_000, true), 10_000);
        assert!(silence.is_over(14_000, 10_000));
        assert!(!silence.is_over(14_000, 10_020));
    }

    #[test]
    fn a_late_look_does_not_count() {
        let mut silence = Silence::new(0, 16_000);
        assert_eq!(silence.goes_on(2_000, true), 2_000);
        assert_eq!(silence.goes_on(60_000, true), 2_000);
        assert_eq!(silence.goes_on(64_000, true), 6_000);
        assert_eq!(silence.goes_on(68_001, true), 6_000);
        // However short the time is.
        let mut silence = Silence::new(0, 1);
        assert_eq!(silence.goes_on(5, true), 0);
        assert_eq!(silence.goes_on(10, true), 5);
        assert_eq!(silence.goes_on(1_012, true), 5);
    }

    #[test]
    fn looks_end_when_the_time_is_over() {
        assert_eq!(find(0, 16_000), Found::Time(2_000));
        assert_eq!(find(7_999, 16_000), Found::Time(2_000));
        assert_eq!(find(8_000, 16_000), Found::Half(2_000));
        assert_eq!(find(15_520, 16_000), Found::Half(500));
        assert_eq!(find(16_000, 16_000), Found::Half(20));
        assert_eq!(find(16_020, 16_000), Found::Over);
        assert_eq!(find(20_000, 16_000), Found::Over);
        // A setting may be as short as that.
        assert_eq!(find(0, 1), Found::Half(1));
    }
}
