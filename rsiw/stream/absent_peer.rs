// SPDX-License-Identifier: GPL-2.0

//! A peer that is not there, for a queue pair that its program connects itself.
//!
//! Programs that were written for InfiniBand expect this: nobody tells a queue pair that its
//! peer has gone, or has never come. It stays in its state and keeps its receives. Only a
//! request that the peer does not answer fails, when it was sent again as often as the program
//! has allowed (`retry_cnt`, `timeout`). Then all other requests and receives are flushed.
//!
//! So the end of a connection takes the stream from it, and no more. A request that is there
//! already, or is posted later, starts the time; so does a Write that the peer has not
//! confirmed. (Sends that wait for a receive without end complete when TCP has taken them. So
//! those that TCP had when the peer went have succeeded.) If there was no connection yet, it may
//! still come meanwhile.
//!
//! A Send that waits for its receive hides the peer's FIN behind it. What tx has not sent by
//! then waits for the peer in vain, and starts the time. The Send keeps its connection, and
//! comes when it has a receive. So do answers to what was sent. They are lost with the connection
//! when the peer's host gives up its own end, after some 10 s.
//!
//! A connection of a peer that has called, and was gone before it sent anything, was none. The
//! peer may not have had the Reply to its call: then it calls again, and is expected. This end
//! has sent nothing either, as it has to wait for the peer's first FPDU. So no request was taken
//! from its queue, and no receive from the other.

use super::{Conn, Stream, Teardown, Unanswered, RETRY};
use crate::{
    queue::{state::State, Seq},
    wr::Status,
};
use core::{mem::take, sync::atomic::Ordering};
use iwarp::conn::timeout;
use kernel::{prelude::*, sync::Arc};
use kext::work::DelayedWorkItem;
use net::TcpState;

/// Milliseconds that a connection without TLS has at the least to come to be: TCP may have to
/// repeat its handshake.
const CONNECT_MS: u32 = 10_000;

/// Milliseconds that a connection has at the most, while the device sets up others: programs
/// connect thousands at a time, one after the other.
const CONNECT_MOST_MS: u32 = 120_000;

/// Milliseconds for which a program has a request sent again to a peer that does not answer: for
/// `timeout` (4.096 us times 2 to the power of that) once, and `retry_cnt` times more. `None`: for
/// ever.
pub(crate) fn time_to_retry(timeout: u8, retry_cnt: u8) -> Option<u32> {
    if timeout == 0 {
        return None;
    }
    // InfiniBand has five bits for it.
    let once_ns = 4096u64 << timeout.min(31);
    let all_ms = once_ns.saturating_mul(u64::from(retry_cnt) + 1) / 1_000_000;
    // More than half the range of the clock would look like the past. That is 24 days.
    Some(u32::try_from(all_ms).map_or(i32::MAX as u32, |ms| ms.min(i32::MAX as u32)))
}

/// Milliseconds that a connection has at the least to come to be; `tls`: either end may want TLS.
/// Handshakes of many queue pairs at a time share the processor, so that all end late, and none
/// early.
const fn least(tls: bool) -> u32 {
    if tls {
        CONNECT_MS + timeout::TLS
    } else {
        CONNECT_MS
    }
}

/// Milliseconds after which a request fails whose connection was lost before it carried anything:
/// the peer has `least` to call again, but all these times together have an end.
fn time_after_call(waited: u32, most: u32, least: u32) -> u32 {
    let left = CONNECT_MOST_MS.saturating_sub(waited).min(least);
    left.max(most.saturating_sub(waited))
}

/// Milliseconds for which a connection that never was has to be waited for still, after `waited`,
/// if the device has set up the last one `idle` ago, and each has `least`.
fn more_time(waited: u32, idle: u32, least: u32) -> Option<u32> {
    let left = CONNECT_MOST_MS.saturating_sub(waited);
    let more = least.checked_sub(idle)?.min(left);
    (more != 0).then_some(more)
}

impl Stream {
    /// Sets for how long requests are sent again without an answer; `None`: for ever. Context: any.
    pub(crate) fn set_retry_time(&self, ms: Option<u32>) {
        self.limits.lock().retry_ms = ms;
        self.end_watch();
    }

    /// The connection is over, whoever ended it. If it is one of a `call` and has still carried
    /// nothing, the caller is expected again: returns true, and [`Self::expect_caller`] is to
    /// follow, when the stream has left the connection. Context: sleeping; no callback runs any
    /// more, and the stream has the connection still.
    pub(super) fn lose_peer(self: &Arc<Self>, call: bool) -> bool {
        let mut end = self.teardown.lock();
        if end.flushed || self.queues.state() != State::Rts || self.queues.inbound.has_fault() {
            drop(end);
            // This end is the reason, or a fault of the peer.
            self.enter_error(self.life(), None);
            return false;
        }
        // Waits until a run of tx that is under way has ended; later runs find no `Tx`. Requests
        // that are posted meanwhile wait, as if the connection were there.
        let sender = self.with_tx(Option::take);
        let filling = self.stop_rx();
        // Only now nothing comes any more. An FPDU has let tx send, and a part of one may have
        // taken a receive: then the peer had the Reply, and has used the connection.
        let unused = call && filling.is_none() && !self.queues.may_send();
        if !unused {
            end.filling = filling;
            end.connected = false;
            self.queues.inbound.clear();
        }
        drop(end);
        // References to regions and to the connection are dropped here, where sleeping is allowed.
        drop(sender);
        if !unused {
            self.await_peer();
        }
        unused
    }

    /// A Send waits for its receive: if the peer's FIN has come behind it, requests wait for a peer
    /// that has gone. Context: sleeping, no lock held.
    #[cold]
    pub(super) fn look_for_fin(self: &Arc<Self>) {
        if !self.dev().is_rc() {
            return;
        }
        let mut end = self.teardown.lock();
        // Within the lock: the connection is that of this life.
        let has_left = |conn: Arc<Conn>| conn.socket().state() == TcpState::CloseWait;
        if !end.connected || end.flushed || !self.conn().is_some_and(has_left) {
            return;
        }
        let sender = self.with_tx(Option::take);
        end.connected = false;
        drop(end);
        // References to regions and to the connection are dropped here, where sleeping is allowed.
        drop(sender);
        self.await_peer();
    }

    /// Goes back to IDLE, where another connection may be attached, unless the QP has failed
    /// meanwhile. Without effect if it was reset since `life`. Context: sleeping, no lock held.
    pub(super) fn expect_caller(self: &Arc<Self>, life: u32) {
        let mut end = self.teardown.lock();
        if life != self.life() {
            return;
        }
        // ERROR leads to IDLE, too, but only a reset takes that way.
        if end.flushed || end.destroyed || self.queues.state() != State::Rts {
            drop(end);
            return self.enter_error(life, None);
        }
        end.connected = false;
        self.queues.begin_again();
        // Last: another connection may be attached from here on.
        if self.queues.advance(State::Idle).is_err() {
            drop(end);
            return self.enter_error(life, None);
        }
        let most = self.limits.lock().retry_ms;
        let since = end.waited_since.take();
        // Requests that the program holds wait for no peer.
        let since = since.filter(|_| !self.queues.sq.is_idle());
        if let (Some(since), Some(most)) = (since, most) {
            let now = kext::jiffies_ms();
            let least = self.least_to_connect();
            let ms = time_after_call(now.wrapping_sub(since), most.max(least), least);
            let until = now.wrapping_add(ms);
            end.unanswered = Some(Unanswered { since, until });
            self.arm_retry(ms);
        }
        drop(end);
        self.await_peer();
    }

    /// Nobody takes what is posted: starts the time, if anything is posted. Context: sleeping, no
    /// lock held.
    #[cold]
    pub(super) fn await_peer(self: &Arc<Self>) {
        if !self.dev().is_rc() {
            return;
        }
        let Some(most) = self.limits.lock().retry_ms else {
            return;
        };
        let ms = match self.queues.state() {
            State::Idle => most.max(self.least_to_connect()),
            State::Rts => most,
            _ => return,
        };
        let mut end = self.teardown.lock();
        if end.flushed || end.destroyed || end.connected || end.unanswered.is_some() {
            return;
        }
        if !self.waits_in_vain() {
            return;
        }
        let since = kext::jiffies_ms();
        let until = since.wrapping_add(ms);
        end.unanswered = Some(Unanswered { since, until });
        self.arm_retry(ms);
    }

    /// Whether there is a request that nobody answers, as nobody sends it, or nothing comes any
    /// more. One that the program holds waits for no peer. Context: sleeping, `teardown` locked.
    fn waits_in_vain(&self) -> bool {
        let hears = |conn: Arc<Conn>| self.is_receiving(&conn.socket().lock());
        if self.conn().is_some_and(hears) {
            self.queues.sq.has_unsent()
        } else {
            !self.queues.sq.is_idle()
        }
    }

    /// There is a connection: requests need not wait any more. `oldest`: that before tx could run.
    /// Context: sleeping.
    pub(super) fn peer_has_come(&self, oldest: Seq) {
        let end = &mut *self.teardown.lock();
        end.waited_since = end.unanswered.take().map(|wait| wait.since);
        end.connected = true;
        (end.silence, end.at_rest) = (None, oldest);
        // The timer, if it is armed, may be late for this one.
        self.end_watch();
        self.dev()
            .connected_at
            .store(kext::jiffies_ms(), Ordering::Relaxed);
    }

    /// There will be no connection, or not this one. Context: sleeping, no lock held.
    pub(super) fn peer_has_not_come(self: &Arc<Self>) {
        self.teardown.lock().connected = false;
        self.await_peer();
    }

    fn least_to_connect(&self) -> u32 {
        least(self.dev().settings.tls().is_on())
    }

    /// Whether the time of requests without an answer is over. If not, arms the timer for the rest.
    fn time_is_over(self: &Arc<Self>, end: &mut Teardown) -> bool {
        let Some(wait) = end.unanswered.as_mut() else {
            return self.look_at_peer(end);
        };
        let now = kext::jiffies_ms();
        // CAST: The difference, as a signed number.
        let left = wait.until.wrapping_sub(now) as i32;
        if left > 0 {
            self.arm_retry(left.unsigned_abs());
            return false;
        }
        let idle = now.wrapping_sub(self.dev().connected_at.load(Ordering::Relaxed));
        let more = match self.queues.state() {
            State::Idle => more_time(now.wrapping_sub(wait.since), idle, self.least_to_connect()),
            _ => None,
        };
        if let Some(ms) = more {
            wait.until = now.wrapping_add(ms);
            self.arm_retry(ms);
            return false;
        }
        end.unanswered = None;
        self.waits_in_vain()
    }

    pub(super) fn arm_retry(self: &Arc<Self>, ms: u32) {
        let queue = self.dev().workqueues.cm.of(self.owner.consumer());
        self.retry_timer.arm(queue, self.clone(), ms.max(1));
    }

    /// Stops the timer for good. Context: sleeping; no lock is held that the timer's function
    /// takes.
    pub(super) fn end_retry(&self) {
        self.retry_timer.cancel_sync();
    }
}

impl Teardown {
    /// No request waits for a peer. The timer, if it is armed, finds nothing to do.
    pub(super) fn stop_waiting(&mut self) {
        (self.unanswered, self.waited_since) = (None, None);
    }

    /// The receive that was being filled when the peer went.
    pub(super) fn take_filling(&mut self) -> Option<(u64, Status)> {
        take(&mut self.filling)
    }
}

impl DelayedWorkItem<RETRY> for Stream {
    fn expire(this: Arc<Self>) {
        let life = {
            let end = &mut *this.teardown.lock();
            if end.flushed || end.destroyed || !this.time_is_over(end) {
                return;
            }
            let sq = &this.queues.sq;
            this.queues
                .note_failure(Some(sq.oldest()), sq.known_status(Status::Retry));
            // Within the lock: a reset begins another life, which does not fail.
            this.life()
        };
        this.dev().counters.rc_retries_exceeded.add(1);
        this.fail(life);
    }
}

#[kunit_tests(rsiw_stream_retry)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_request() {
        assert_eq!(time_to_retry(0, 7), None);
        assert_eq!(time_to_retry(14, 0), Some(67));
        assert_eq!(time_to_retry(14, 7), Some(536));
        assert_eq!(time_to_retry(31, 7), Some(70_368_744));
        assert_eq!(time_to_retry(52, 7), time_to_retry(31, 7));
        assert_eq!(time_to_retry(31, 255), Some(i32::MAX as u32));
    }

    #[test]
    fn a_caller_has_time_to_call_again() {
        // What was left of the time, but ten seconds at the least, and two minutes in all.
        let clear = least(false);
        assert_eq!(time_after_call(100, 60_000, clear), 59_900);
        assert_eq!(time_after_call(100, 10_000, clear), 10_000);
        assert_eq!(time_after_call(30_000, 10_000, clear), 10_000);
        assert_eq!(time_after_call(115_000, 10_000, clear), 5_000);
        assert_eq!(time_after_call(130_000, 10_000, clear), 0);
    }

    #[test]
    fn a_connection_has_time_while_others_are_made() {
        let (clear, tls) = (least(false), least(true));
        assert_eq!(more_time(10_000, 10_000, clear), None);
        assert_eq!(more_time(10_000, 20, clear), Some(9_980));
        assert_eq!(more_time(119_999, 0, clear), Some(1));
        assert_eq!(more_time(120_000, 0, clear), None);
        // No handshake of many has ended yet.
        assert_eq!(more_time(10_000, 10_000, tls), Some(20_000));
        assert_eq!(more_time(30_000, 30_000, tls), None);
    }
}
