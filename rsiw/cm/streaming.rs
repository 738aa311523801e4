// SPDX-License-Identifier: GPL-2.0

//! The time in which a queue pair owns the stream, up to the exchange of FINs.
//!
//! RDMAP's orderly close is TCP's: each end sends a FIN behind its last message. An end that
//! receives a FIN reports it (`DISCONNECT`), and sends its own when its queue pair has sent what it
//! still had.

use super::{
    close,
    conn::{Conn, Events},
    secure,
    stage::Stage,
    timeout, Close, Lost, User,
};
#[cfg(doc)]
use crate::settings::Settings;
use core::format_args;
use kernel::sync::Arc;
use net::errno;
use rdma::CmId;

/// An established connection's consumer, by its identifier, and queue pair.
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

/// Which end may send first, and what this end does if neither sends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// This end, at once: it is the initiator and owes no RTR.
    Ours,
    /// This end, the initiator, which has sent an RTR. If the peer stays silent, it may have missed
    /// the RTR. The value is `bytes_received()` before the RTR was sent.
    OurRtr(u64),
    /// The peer, which owes an RTR.
    Rtr,
    /// The peer, which owes no RTR. If it sends nothing for `wait` milliseconds after it has
    /// acknowledged the Reply, this end assumes that both wait, and sends; if `wait` is 0, it never
    /// does.
    Theirs {
        /// [`Settings::responder_wait_ms`](crate::settings::Settings::responder_wait_ms) when the
        /// connection began.
        wait: u32,
        reply: Reply,
    },
}

/// The peer's acknowledgment of the Reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// It has not come. The value is the `bytes_acked()` that tells it.
    Sent(u64),
    /// It has come. The value is the [`Conn::age`] at which the wait is over.
    Acked(i64),
}

impl First {
    /// Lets the queue pair send if the peer has been silent for long enough since it has had our
    /// Reply; else sets a time-out for the rest of that time. TCP may have to send the Reply more
    /// than once, so the time counts from its acknowledgment. Returns whether it has to wait.
    fn waits<U: User>(&mut self, conn: &Arc<Conn<U>>, user: &Arc<U>) -> bool {
        let &mut First::Theirs { wait, reply } = self else {
            return false;
        };
        if wait == 0 {
            return false;
        }
        let end = match reply {
            Reply::Acked(end) => end,
            Reply::Sent(octets) => {
                let (acked, ago) = {
                    // TCP updates the counter first and the time later; the lock keeps both in
                    // step.
                    let _sk = conn.socket().lock();
                    (conn.socket().bytes_acked(), conn.socket().last_ack_ms())
                };
                if acked < octets {
                    conn.set_timeout(wait.max(timeout::LOOK));
                    return true;
                }
                // Later acknowledgments, those of keep-alive probes for instance, do not start the
                // time again.
                let end = conn.age() + i64::from(wait) - i64::from(ago);
                let reply = Reply::Acked(end);
                *self = First::Theirs { wait, reply };
                end
            }
        };
        match u32::try_from(end - conn.age()) {
            Ok(left @ 1..) => conn.set_timeout(left),
            // The time is over.
            _ => {
                user.may_start();
                return false;
            }
        }
        true
    }
}

/// An orderly close has begun; the queue pair sends what it still has.
pub(super) struct Draining<U: User> {
    established: Established<U>,
    /// The peer's FIN has come.
    peer_done: bool,
    /// Octets that the peer had acknowledged when the wait began.
    acked: u64,
    /// The queue pair has sent all. The FIN waits for room, and was tried so often.
    fin: Option<u32>,
    /// The queue pair found a fault and is about to close. A FIN now would cut off its Terminate.
    faulted: bool,
    /// Until this end may send, and then [`First::Ours`].
    first: First,
    /// The [`Conn::age`] at which the close began.
    since: i64,
}

/// Our FIN is sent, or queued behind the last data; the peer's has not come.
pub(super) struct FinSent<U: User> {
    established: Established<U>,
    /// Octets that the peer had sent when the wait began.
    received: u64,
}

/// Returns the next stage if an event ends the stream at once, in whichever of these stages.
fn cut_short<U: User>(
    conn: &Arc<Conn<U>>,
    established: &Established<U>,
    events: Events,
) -> Option<Stage<U>> {
    if conn.socket().is_secure() {
        if let Some(e) = conn.error() {
            secure::log_broken(conn, e);
        } else if conn.socket().key_is_used_up() {
            secure::log_broken(conn, errno::EDQUOT.error());
        } else if events.any(Events::CUT) {
            conn.log_failure(format_args!(
                "TLS stream cut: no close_notify, or within an FPDU"
            ));
        }
    }
    let (why, e) = if conn.how() == Some(Close::Abort) {
        if conn.error().is_some() {
            // A send that fails after a reset makes the queue pair ask for an abort. Receive first,
            // as below.
            conn.look(events);
        }
        (Lost::Aborted, errno::ECONNABORTED.error())
    } else if let Some(e) = conn.error() {
        // Data that came before the reset may still wait for a worker.
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

/// The wait of the stage was in vain: resets the connection.
fn timed_out<U: User>(conn: &Arc<Conn<U>>, established: &Established<U>) -> Stage<U> {
    let e = errno::ETIMEDOUT.error();
    close::abort(conn, established, Lost::Aborted, Err(e))
}

/// Has TCP check that the peer is still there: after a time without anything from it, and while
/// sent data is not acknowledged. Otherwise a peer that has crashed, or that no packet reaches,
/// would keep the queue pair for ever, or for the quarter of an hour that TCP retransmits. A peer
/// that is gone shows as an error of the socket. Context: sleeping.
fn watch<U: User>(conn: &Arc<Conn<U>>) {
    let socket = conn.socket();
    let timeout = conn.settings().user_timeout_ms();
    if timeout != 0 {
        socket.set_user_timeout(timeout);
    }
    if let Some((idle, interval, count)) = conn.settings().keepalive() {
        // It fails only for values out of range, which these are not.
        let _ = socket.set_keepalive(idle, interval, count);
    }
}

/// Sets a time-out of `ms` milliseconds; none if it is 0.
fn set_wait<U: User>(conn: &Arc<Conn<U>>, ms: u32) {
    match ms {
        0 => conn.clear_timeout(),
        ms => conn.set_timeout(ms),
    }
}

/// If `events` has [`Events::SOCKET`], which does not say what happened, receives to find out.
/// Returns all events.
fn look<U: User>(conn: &Arc<Conn<U>>, events: Events) -> Events {
    if events.any(Events::SOCKET) {
        conn.look(events)
    } else {
        events
    }
}

impl<U: User> Streaming<U> {
    /// Gives the stream to the queue pair, which is bound to the connection already. If the peer
    /// owes an RTR, it has to come soon. Context: sleeping.
    ///
    /// A peer that owes no RTR may be silent for as long as it likes. TCP's keep-alive probes show
    /// that it is there, and how long to wait for a message is left to the ULP (RFC 5044 section
    /// 7.1.2, rule 10).
    pub(super) fn begin(conn: &Arc<Conn<U>>, established: Established<U>, first: First) -> Self {
        watch(conn);
        match first {
            First::Rtr => conn.set_timeout(timeout::RTR),
            First::Theirs { wait, .. } => set_wait(conn, wait),
            First::OurRtr(_) => set_wait(conn, conn.settings().initiator_wait_ms()),
            First::Ours => conn.clear_timeout(),
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
        self.faulted |= events.any(Events::FAULT);
        if events.any(Events::EOF) || conn.how() == Some(Close::Graceful) {
            return self.drain(conn, events.any(Events::EOF));
        }
        if events.any(Events::FAULT) {
            conn.set_timeout(timeout::TERMINATE);
        } else if events.any(Events::TIMEOUT) {
            if self.faulted {
                return timed_out(conn, &self.established);
            }
            match self.first {
                First::Rtr if !conn.peer_started() => return timed_out(conn, &self.established),
                First::Theirs { .. } if !conn.peer_started() => {
                    self.first.waits(conn, &self.established.user);
                }
                First::OurRtr(received) if conn.socket().bytes_received() == received => {
                    self.established.user.repeat_rtr();
                }
                First::Rtr | First::Theirs { .. } | First::Ours | First::OurRtr(_) => {}
            }
        }
        Stage::Streaming(self)
    }

    /// Begins the orderly close.
    fn drain(self, conn: &Arc<Conn<U>>, peer_done: bool) -> Stage<U> {
        if peer_done {
            close::report_disconnect(&self.established);
        }
        let mut draining = Draining {
            established: self.established,
            peer_done,
            acked: 0,
            fin: None,
            faulted: self.faulted,
            first: self.first,
            since: conn.age(),
        };
        draining.established.user.drain();
        if !draining.may_not_send(conn) {
            draining.begin_wait(conn);
        }
        Stage::Draining(draining)
    }
}

impl<U: User> Draining<U> {
    /// Whether what is posted has to wait, as this end may not send yet; sets a time-out then, but
    /// waits no longer than for the queue pair. Context: sleeping.
    fn may_not_send(&mut self, conn: &Arc<Conn<U>>) -> bool {
        let over = conn.age() - self.since > i64::from(timeout::DRAIN);
        let over = over || self.faulted || conn.peer_started() || conn.registry.is_leaving();
        !over && self.first.waits(conn, &self.established.user)
    }

    /// Begins the wait for the queue pair: until it has sent all, or a Terminate. Context:
    /// sleeping.
    fn begin_wait(&mut self, conn: &Arc<Conn<U>>) {
        self.first = First::Ours;
        match self.faulted {
            true => conn.set_close_timeout(timeout::TERMINATE),
            false => conn.set_close_timeout(timeout::DRAIN),
        }
        self.acked = match self.faulted {
            true => u64::MAX,
            false => conn.socket().bytes_acked(),
        };
    }

    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let events = look(conn, events);
        if let Some(end) = cut_short(conn, &self.established, events) {
            return end;
        }
        if events.any(Events::EOF) && !self.peer_done {
            self.peer_done = true;
            close::report_disconnect(&self.established);
            // Tell the queue pair again: it need not wait for answers any more.
            self.established.user.drain();
        }
        if events.any(Events::FAULT) {
            self.faulted = true;
            self.begin_wait(conn);
        } else if events.any(Events::LEAVE) {
            self.first = First::Ours;
            conn.set_close_timeout(timeout::DRAIN);
        } else if events.any(Events::TIMEOUT) && self.first != First::Ours {
            if !self.may_not_send(conn) {
                self.begin_wait(conn);
            }
        } else if events.any(Events::TIMEOUT) {
            let acked = conn.socket().bytes_acked();
            let leaving = conn.registry.is_leaving();
            let most = match leaving {
                true => timeout::LEAVE,
                false => timeout::DRAIN,
            };
            let tried = self
                .fin
                .is_none_or(|tries| tries >= most / timeout::SEND_AGAIN);
            let expired = self.faulted || tried;
            if expired && (acked <= self.acked || leaving) {
                return timed_out(conn, &self.established);
            }
            // The peer is slow, but it takes data.
            if expired {
                (self.acked, self.fin) = (acked, self.fin.map(|_| 0));
            }
            conn.set_timeout(timeout::DRAIN);
        }
        if events.any(Events::DRAINED) {
            self.fin.get_or_insert(0);
        }
        let Some(tries) = self.fin.filter(|_| !self.faulted) else {
            return Stage::Draining(self);
        };
        if !conn.send_fin() {
            self.fin = Some(tries.saturating_add(1));
            conn.set_timeout(timeout::SEND_AGAIN);
            return Stage::Draining(self);
        }
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
            // The peer still sends data.
            self.received = received;
            conn.set_timeout(timeout::FIN);
        }
        Stage::FinSent(self)
    }
}
