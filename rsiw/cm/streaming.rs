// SPDX-License-Identifier: GPL-2.0

//! The time in which a queue pair owns the stream, up to the exchange of FINs.
//!
//! RDMAP's orderly close is TCP's: each end sends a FIN behind its last message. An end that
//! receives one reports it (`DISCONNECT`) and answers with its own, behind what its queue pair had
//! still to send.

use super::{
    close,
    conn::{Conn, Events},
    stage::Stage,
    timeout, Close, Lost, User,
};
use crate::params;
use kernel::sync::Arc;
use net::errno;
use rdma::CmId;

/// The two ends of an established connection on this side: the consumer's id and the queue pair.
pub(super) struct Established<U: User> {
    pub(super) cm: CmId,
    pub(super) user: Arc<U>,
}

/// The queue pair owns the stream.
pub(super) struct Streaming<U: User> {
    established: Established<U>,
    /// The queue pair found a fault and is about to close.
    faulted: bool,
    first: First,
}

/// Who may send first, and what if nobody does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// This end, at once: it is the initiator.
    Ours,
    /// This end, which owes an RTR: if the peer stays silent, it may have missed it. What the peer had
    /// sent before the RTR.
    OurRtr(u64),
    /// The peer, which owes an RTR.
    Rtr,
    /// The peer, which promised nothing: so long after it has acknowledged the Reply, this end takes it
    /// that both wait. Until it has, this is what TCP counts as acknowledged when it does.
    Theirs(Option<u64>),
}

/// The queue pair sends what it has.
pub(super) struct Draining<U: User> {
    established: Established<U>,
    /// The peer's FIN came.
    peer_done: bool,
    /// What the peer had acknowledged when the wait began.
    acked: u64,
}

/// Our FIN is behind everything; the peer's is to come.
pub(super) struct FinSent<U: User> {
    established: Established<U>,
    /// What the peer had sent when the wait began.
    received: u64,
}

/// The next stage, if something ends the stream at once, in any of these stages.
fn cut_short<U: User>(
    conn: &Arc<Conn<U>>,
    established: &Established<U>,
    events: Events,
) -> Option<Stage<U>> {
    let (why, e) = if conn.how() == Some(Close::Abort) {
        if conn.error().is_some() {
            // So says a send that failed after a reset: see below.
            conn.look(events);
        }
        (Lost::Aborted, errno::ECONNABORTED.error())
    } else if let Some(e) = conn.error() {
        // What came before the reset may wait for a worker.
        conn.look(events);
        (Lost::Reset, e)
    } else if events.any(Events::CUT) {
        (Lost::Reset, errno::ECONNRESET.error())
    } else if conn.how() == Some(Close::Flush) {
        return Some(close::flush(conn, established));
    } else {
        return None;
    };
    Some(close::abort(conn, established, why, Err(e)))
}

/// Nothing has come of the wait.
fn timed_out<U: User>(conn: &Arc<Conn<U>>, established: &Established<U>) -> Stage<U> {
    let e = errno::ETIMEDOUT.error();
    close::abort(conn, established, Lost::Aborted, Err(e))
}

/// Has TCP look whether the peer is still there: when nothing has come for a while, and when what was
/// sent is not acknowledged. A host that has crashed, or that no packet reaches, would otherwise keep
/// the queue pair for good, or for the quarter of an hour that TCP repeats. What TCP finds comes as an
/// error of the socket. Context: sleeping.
fn watch<U: User>(conn: &Arc<Conn<U>>) {
    let socket = conn.socket();
    let timeout = params::user_timeout_ms();
    if timeout != 0 {
        socket.set_user_timeout(timeout);
    }
    if let Some((idle, interval, count)) = params::keepalive() {
        // Fails for values out of range, which these are not.
        let _ = socket.set_keepalive(idle, interval, count);
    }
}

/// A callback that only says "something" does not say what: look.
fn look<U: User>(conn: &Arc<Conn<U>>, events: Events) -> Events {
    if events.any(Events::SOCKET) {
        conn.look(events)
    } else {
        events
    }
}

impl<U: User> Streaming<U> {
    /// Gives the stream to the queue pair, which has been bound to the connection. If the peer owes
    /// an RTR, it has to come soon. Context: sleeping.
    ///
    /// A peer that owes none may be silent for as long as it likes: one that is there answers TCP's
    /// keep-alive probes, and how long to wait for a message is the ULP's business (RFC 5044 section
    /// 7.1.2, rule 10).
    pub(super) fn begin(conn: &Arc<Conn<U>>, established: Established<U>, first: First) -> Self {
        watch(conn);
        match first {
            First::Rtr => conn.set_timeout(timeout::RTR),
            First::Theirs(_) if params::responder_wait() != 0 => {
                conn.set_timeout(params::responder_wait());
            }
            First::OurRtr(_) if params::initiator_wait() != 0 => {
                conn.set_timeout(params::initiator_wait());
            }
            First::Theirs(_) | First::Ours | First::OurRtr(_) => conn.clear_timeout(),
        }
        conn.give_stream(&established.user);
        Self {
            established,
            faulted: false,
            first,
        }
    }

    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let events = look(conn, events);
        if let Some(end) = cut_short(conn, &self.established, events) {
            return end;
        }
        if events.any(Events::EOF) || conn.how() == Some(Close::Graceful) {
            return self.drain(conn, events.any(Events::EOF));
        }
        if events.any(Events::FAULT) {
            self.faulted = true;
            conn.set_timeout(timeout::TERMINATE);
        } else if events.any(Events::TIMEOUT) {
            if self.faulted {
                return timed_out(conn, &self.established);
            }
            match self.first {
                First::Rtr if !conn.peer_started() => return timed_out(conn, &self.established),
                First::Theirs(reply) if !conn.peer_started() => self.their_silence(conn, reply),
                First::OurRtr(received) if conn.socket().bytes_received() == received => {
                    self.established.user.repeat_rtr();
                }
                First::Rtr | First::Theirs(_) | First::Ours | First::OurRtr(_) => {}
            }
        }
        Stage::Streaming(self)
    }

    /// Starts, if the peer has been silent for long enough since it had our Reply, which may have been
    /// lost on its way, once or more often; or waits for the rest of that time.
    fn their_silence(&mut self, conn: &Arc<Conn<U>>, reply: Option<u64>) {
        let wait = params::responder_wait();
        let (acked, ago) = {
            // TCP counts first, and notes the time later.
            let _sk = conn.socket().lock();
            (conn.socket().bytes_acked(), conn.socket().last_ack_ms())
        };
        let left = match reply {
            None => 0,
            Some(end) if acked < end => wait.max(timeout::LOOK),
            Some(_) => {
                // What it acknowledges later on, keep-alive probes for one, does not count.
                self.first = First::Theirs(None);
                wait.saturating_sub(ago)
            }
        };
        match left {
            0 => self.established.user.may_start(),
            left => conn.set_timeout(left),
        }
    }

    /// Begins the orderly close.
    fn drain(self, conn: &Arc<Conn<U>>, peer_done: bool) -> Stage<U> {
        let established = self.established;
        if peer_done {
            close::report_disconnect(&established);
        }
        conn.set_close_timeout(timeout::DRAIN);
        established.user.drain();
        let acked = conn.socket().bytes_acked();
        Stage::Draining(Draining {
            established,
            peer_done,
            acked,
        })
    }
}

impl<U: User> Draining<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let events = look(conn, events);
        if let Some(end) = cut_short(conn, &self.established, events) {
            return end;
        }
        if events.any(Events::EOF) && !self.peer_done {
            self.peer_done = true;
            close::report_disconnect(&self.established);
            // The queue pair need not wait for answers any more.
            self.established.user.drain();
        }
        if events.any(Events::FAULT) {
            conn.set_close_timeout(timeout::TERMINATE);
            self.acked = u64::MAX;
        } else if events.any(Events::LEAVE) {
            conn.set_close_timeout(timeout::DRAIN);
        } else if events.any(Events::TIMEOUT) {
            let acked = conn.socket().bytes_acked();
            if acked <= self.acked || conn.registry.is_leaving() {
                return timed_out(conn, &self.established);
            }
            // Slow, but it goes on.
            self.acked = acked;
            conn.set_timeout(timeout::DRAIN);
        }
        if !events.any(Events::DRAINED) {
            return Stage::Draining(self);
        }
        // Fails if the connection is gone, of which the socket tells as well.
        let _ = conn.socket().shutdown_write();
        if self.peer_done {
            return close::finish(conn, &self.established);
        }
        conn.set_close_timeout(timeout::FIN);
        let received = conn.socket().bytes_received();
        Stage::FinSent(FinSent {
            established: self.established,
            received,
        })
    }
}

impl<U: User> FinSent<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let events = look(conn, events);
        if let Some(end) = cut_short(conn, &self.established, events) {
            return end;
        }
        if events.any(Events::EOF) {
            close::report_disconnect(&self.established);
            return close::finish(conn, &self.established);
        }
        if events.any(Events::LEAVE) {
            conn.set_close_timeout(timeout::FIN);
        } else if events.any(Events::TIMEOUT) {
            let received = conn.socket().bytes_received();
            if received <= self.received || conn.registry.is_leaving() {
                return timed_out(conn, &self.established);
            }
            // The peer still sends what it has.
            self.received = received;
            conn.set_timeout(timeout::FIN);
        }
        Stage::FinSent(self)
    }
}
