// SPDX-License-Identifier: GPL-2.0

//! Every way in which a connection ends.
//!
//! With a queue pair, the order is this:
//!
//! 1. The callbacks are detached, so the queue pair hears nothing more, and the registry forgets
//!    the connection ([`Conn::leave`]).
//! 2. TCP: a reset, unless TCP has ended the connection or both FINs are there.
//! 3. [`User::lost`]: all outstanding requests complete, and the queue pair drops the connection.
//! 4. `CLOSE` to iwcm, which drops its references to the queue pair and, with our [`CmId`], to the
//!    identifier. No event follows.
//! 5. The last reference, which may be one of tx's, releases the socket.
//!
//! A connection that lingers still has data to deliver. So 3 and 4 come at once: its callbacks
//! throw received data away, and it sends what the queue pair has left, and the FIN. 1 and 2 come
//! when the peer's FIN is there, or the time is over.
//!
//! Before the queue pair runs, an initiator reports `CONNECT_REPLY` with an error in place of
//! `CLOSE`, and a responder reports nothing.

use super::{
    conn::{Conn, Events},
    initiator::Attempt,
    listener::Refused,
    stage::Stage,
    streaming::Established,
    timeout, Close, Lost, User,
};
use crate::transport::Transport;
use core::mem::take;
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::{errno, Sent, TxBatch};
use rdma::{CmId, ConnInfo};

/// Ends an established connection by a reset, unless TCP has ended it. Context: sleeping.
pub(super) fn abort<U: User>(
    conn: &Arc<Conn<U>>,
    established: &Established<U>,
    why: Lost,
    status: Result,
) -> Stage<U> {
    conn.dev().counters.connections_aborted.add(1);
    conn.leave();
    conn.socket().abort();
    established.user.lost(why);
    report_close(&established.cm, status);
    Stage::Closed
}

/// Ends an established connection after both FINs. Context: sleeping.
pub(super) fn finish<U: User>(conn: &Arc<Conn<U>>, established: &Established<U>) -> Stage<U> {
    conn.dev().counters.connections_closed.add(1);
    conn.leave();
    established.user.lost(Lost::Closed);
    report_close(&established.cm, Ok(()));
    Stage::Closed
}

/// Ends an established connection for its consumer, while TCP still delivers the data that it has.
/// Context: sleeping.
pub(super) fn flush<U: User>(conn: &Arc<Conn<U>>, established: &Established<U>) -> Stage<U> {
    conn.dev().counters.connections_aborted.add(1);
    // First: it hands over the rest of a batch (`Conn::take_over`), which `linger` sends.
    established.user.lost(Lost::Aborted);
    let next = linger(conn, None);
    report_close(&established.cm, Ok(()));
    next
}

/// Nobody uses the connection any more. The rest of a batch and our FIN are still to be delivered,
/// and data from the peer is thrown away.
pub(super) struct Linger<U: User> {
    rest: Option<KBox<TxBatch>>,
    /// Our FIN is with TCP.
    fin: bool,
    /// The time-out for which the timer runs: [`timeout::LINGER`], or [`timeout::SEND_AGAIN`]; 0 if
    /// it is over.
    wait: u32,
    /// How often the shorter one was over.
    tries: u32,
    eof: bool,
    acked: u64,
    again: u32,
    /// Dropped with the stage, which frees the place.
    _place: Option<Refused<U>>,
}

/// Sends the rest that the queue pair has left, then a FIN, and waits for the peer's FIN for a
/// bounded time. To release a socket that has unread data makes TCP send a reset, which may
/// overtake the data that was sent last. A connection that a listener refused has a `place`.
/// Context: sleeping.
pub(super) fn linger<U: User>(conn: &Arc<Conn<U>>, place: Option<Refused<U>>) -> Stage<U> {
    // First: the peer may acknowledge the FIN at once, which is what its first wait is for.
    let acked = conn.socket().bytes_acked();
    let rest = conn.take_rest();
    let fin = rest.is_none() && conn.send_fin();
    conn.set_timeout(timeout::LINGER);
    conn.discard();
    let stage = Linger {
        rest,
        fin,
        wait: timeout::LINGER,
        tries: 0,
        eof: false,
        acked,
        again: timeout::LINGERS,
        _place: place,
    };
    stage.go_on(conn)
}

impl<U: User> Linger<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        self.eof |= events.any(Events::EOF);
        if self.eof && self.fin {
            // Both FINs are there, so other events do not matter.
            return self.go_on(conn);
        }
        if conn.how() == Some(Close::Abort) || conn.error().is_some() {
            return drop_unknown(conn);
        }
        if events.any(Events::SOCKET) && !conn.transport().works_in_callback() {
            conn.discard();
        }
        if events.any(Events::TIMEOUT) {
            const TRIES: u32 = timeout::LINGER / timeout::SEND_AGAIN;
            self.tries = match take(&mut self.wait) {
                timeout::SEND_AGAIN => self.tries + 1,
                _ => TRIES,
            };
            if self.tries >= TRIES {
                self.tries = 0;
                let acked = conn.socket().bytes_acked();
                if acked <= self.acked || self.again == 0 {
                    return drop_unknown(conn);
                }
                self.acked = acked;
                self.again -= 1;
            }
        }
        self.go_on(conn)
    }

    /// Goes on sending. The connection is over when both FINs are there.
    fn go_on(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        let Ok(progress) = self.send(conn) else {
            return drop_unknown(conn);
        };
        if self.eof && self.fin {
            conn.leave();
            return Stage::Closed;
        }
        let wait = match progress {
            Progress::Polls => timeout::SEND_AGAIN,
            Progress::Waits => timeout::LINGER,
        };
        // Otherwise the time goes on, whatever the peer sends.
        if self.wait != wait {
            self.wait = wait;
            conn.set_timeout(wait);
        }
        Stage::Linger(self)
    }

    /// Sends as much of the rest as there is room for, and the FIN behind it. Errors: the
    /// connection is gone.
    fn send(&mut self, conn: &Arc<Conn<U>>) -> Result<Progress> {
        if let Some(rest) = &mut self.rest {
            while !rest.is_empty() {
                match conn.socket().send_batch(rest)? {
                    Sent::Bytes(n) => rest.consume(n),
                    Sent::WouldBlock if conn.transport().has_room() => return Ok(Progress::Polls),
                    Sent::WouldBlock => return Ok(Progress::Waits),
                }
            }
            self.rest = None;
        }
        self.fin = self.fin || conn.send_fin();
        Ok(match self.fin {
            true => Progress::Waits,
            false => Progress::Polls,
        })
    }
}

/// What a connection that lingers waits for.
enum Progress {
    /// An event: TCP has room, or the peer's FIN is there.
    Waits,
    /// What nobody tells of: TCP has no memory, or no room for what TLS sends before the FIN.
    Polls,
}

/// Resets a connection whose end nobody has to be told of. Context: sleeping.
pub(super) fn drop_unknown<U: User>(conn: &Arc<Conn<U>>) -> Stage<U> {
    conn.leave();
    conn.socket().abort();
    Stage::Closed
}

/// As [`drop_unknown`], for a connection of a peer whose Request was not reported. Context:
/// sleeping.
pub(super) fn drop_early<U: User>(conn: &Arc<Conn<U>>) -> Stage<U> {
    conn.dev().counters.requests_dropped.add(1);
    drop_unknown(conn)
}

/// Ends an initiator's attempt, and reports `status` to the consumer. `peer` is the information of
/// the peer's Reply, if there was one. Context: sleeping.
pub(super) fn fail_attempt<U: User>(
    conn: &Arc<Conn<U>>,
    attempt: &Attempt<U>,
    status: Error,
    last_words: LastWords,
    peer: Option<ReplyInfo<'_>>,
) -> Stage<U> {
    let next = match last_words {
        LastWords::None => {
            conn.leave();
            conn.socket().abort();
            Stage::Closed
        }
        LastWords::Sent => linger(conn, None),
    };
    count_failure(conn, status, peer.is_some());
    attempt.user.lost(Lost::Handshake);
    report_reply(attempt, Err(status), peer.unwrap_or_default());
    next
}

/// Counts an attempt that fails with `status`, after a Reply of the peer or without one.
pub(super) fn count_failure<U: User>(conn: &Conn<U>, status: Error, replied: bool) {
    let counters = &conn.dev().counters;
    let refused = status == errno::ECONNREFUSED;
    let count = match replied {
        true if refused => &counters.connects_rejected,
        false if refused => &counters.connects_refused,
        _ if status == errno::ETIMEDOUT => &counters.connects_timed_out,
        _ => &counters.connects_failed,
    };
    count.add(1);
}

/// Whether this end has sent something that the peer should still get.
pub(super) enum LastWords {
    /// No: the connection is reset.
    None,
    /// Yes: the connection lingers, and ends by FINs.
    Sent,
}

/// The peer's information in a `CONNECT_REPLY`.
#[derive(Clone, Copy, Default)]
pub(super) struct ReplyInfo<'a> {
    pub(super) private_data: &'a [u8],
    pub(super) ird: u8,
    pub(super) ord: u8,
}

/// Reports the one `CONNECT_REPLY` of an attempt.
pub(super) fn report_reply<U: User>(attempt: &Attempt<U>, status: Result, info: ReplyInfo<'_>) {
    let mut info = ConnInfo {
        local: attempt.local,
        remote: attempt.remote,
        private_data: super::event_private_data(info.private_data),
        ird: info.ird,
        ord: info.ord,
    };
    if attempt.cm.connect_reply(status, &info).is_err() {
        // iwcm has no memory for a copy of the private data. The event itself needs none, and
        // without it the consumer would wait for ever.
        info.private_data = &[];
        if attempt.cm.connect_reply(status, &info).is_err() {
            pr_warn_once!("iwcm did not take a CONNECT_REPLY\n");
        }
    }
}

/// Reports that the peer's FIN has come.
pub(super) fn report_disconnect<U: User>(established: &Established<U>) {
    // iwcm has allocated memory for this beforehand. If it fails nevertheless, `CLOSE` says enough.
    let _ = established.cm.disconnect();
}

fn report_close(cm: &CmId, status: Result) {
    if cm.close(status).is_err() {
        pr_warn_once!("iwcm did not take a CLOSE\n");
    }
}
