// SPDX-License-Identifier: GPL-2.0

//! Every way a connection ends.
//!
//! With a queue pair, always in this order:
//!
//! 1. TCP: a reset, or a FIN where it was not sent yet. Callbacks are detached, the queue pair hears
//!    nothing more.
//! 2. [`User::lost`]: everything outstanding completes, the queue pair drops the connection.
//! 3. If the connection lingers: callbacks receive for nobody, and the FIN follows only now, behind
//!    what the queue pair has left.
//! 4. `CLOSE` to iwcm, which drops its references to the queue pair and, with our [`CmId`], to the
//!    id. Nothing is reported after that.
//! 5. The registry forgets the connection. The last reference to it, which may be one of tx's,
//!    releases the socket.
//!
//! Before there is a queue pair that runs, `CONNECT_REPLY` with an error takes the place of `CLOSE`
//! for an initiator, and nothing for a responder.

use super::{
    conn::{Conn, Events},
    initiator::Attempt,
    listener::Refused,
    stage::Stage,
    streaming::Established,
    timeout, Close, Lost, User,
};
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::{Sent, TxBatch};
use rdma::{CmId, ConnInfo};

/// Ends an established connection by a reset (if TCP has not ended it). Context: sleeping.
pub(super) fn abort<U: User>(
    conn: &Arc<Conn<U>>,
    established: &Established<U>,
    why: Lost,
    status: Result,
) -> Stage<U> {
    conn.leave();
    conn.socket().abort();
    established.user.lost(why);
    report_close(&established.cm, status);
    Stage::Closed
}

/// Ends an established connection after both FINs. Context: sleeping.
pub(super) fn finish<U: User>(conn: &Arc<Conn<U>>, established: &Established<U>) -> Stage<U> {
    conn.leave();
    established.user.lost(Lost::Closed);
    report_close(&established.cm, Ok(()));
    Stage::Closed
}

/// Ends an established connection for its consumer, while TCP delivers what it has. Context:
/// sleeping.
pub(super) fn flush<U: User>(conn: &Arc<Conn<U>>, established: &Established<U>) -> Stage<U> {
    // Leaves us what is still to be sent.
    established.user.lost(Lost::Aborted);
    let next = linger(conn, None);
    report_close(&established.cm, Ok(()));
    next
}

/// Our FIN is behind everything, or behind what is left to send, and nobody waits for what the peer
/// still sends.
pub(super) struct Linger<U: User> {
    rest: Option<KBox<TxBatch>>,
    eof: bool,
    acked: u64,
    again: u32,
    /// Given back with the stage.
    _place: Option<Refused<U>>,
}

/// Sends what the queue pair left and a FIN, and waits a little for the peer's. To release the
/// socket at once would be a reset if anything were left to read, and a reset may overtake what was
/// sent last. Those that a listener refused have a place. Context: sleeping.
pub(super) fn linger<U: User>(conn: &Arc<Conn<U>>, place: Option<Refused<U>>) -> Stage<U> {
    let rest = conn.take_rest();
    if rest.is_none() {
        send_fin(conn);
    }
    conn.set_timeout(timeout::LINGER);
    conn.discard();
    let stage = Linger {
        rest,
        eof: false,
        acked: conn.socket().bytes_acked(),
        again: timeout::LINGERS,
        _place: place,
    };
    stage.go_on(conn)
}

/// Fails if the connection is gone, of which the next step hears.
fn send_fin<U: User>(conn: &Arc<Conn<U>>) {
    let _ = conn.socket().shutdown_write();
}

impl<U: User> Linger<U> {
    pub(super) fn step(mut self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        self.eof |= events.any(Events::EOF);
        if self.eof && self.rest.is_none() {
            // Both FINs are there, whatever else is.
            return self.go_on(conn);
        }
        if conn.how() == Some(Close::Abort) || conn.error().is_some() {
            return drop_unknown(conn);
        }
        if events.any(Events::TIMEOUT) {
            let acked = conn.socket().bytes_acked();
            if acked <= self.acked || self.again == 0 {
                return drop_unknown(conn);
            }
            self.acked = acked;
            self.again -= 1;
            conn.set_timeout(timeout::LINGER);
        }
        self.go_on(conn)
    }

    /// Sends what there is room for, the FIN behind the last of it; over when both FINs are there.
    fn go_on(mut self, conn: &Arc<Conn<U>>) -> Stage<U> {
        if let Some(rest) = &mut self.rest {
            while !rest.is_empty() {
                match conn.socket().send_batch(rest) {
                    Ok(Sent::Bytes(n)) => rest.consume(n),
                    Ok(Sent::WouldBlock) => return Stage::Linger(self),
                    Err(_) => return drop_unknown(conn),
                }
            }
            self.rest = None;
            send_fin(conn);
        }
        if !self.eof {
            return Stage::Linger(self);
        }
        conn.leave();
        Stage::Closed
    }
}

/// Ends, by a reset, a connection that nobody has to be told of. Context: sleeping.
pub(super) fn drop_unknown<U: User>(conn: &Arc<Conn<U>>) -> Stage<U> {
    conn.leave();
    conn.socket().abort();
    Stage::Closed
}

/// Ends an initiator's attempt and tells the consumer why. `peer` is what the peer's Reply said, if
/// there was one. Context: sleeping.
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
    attempt.user.lost(Lost::Handshake);
    report_reply(attempt, Err(status), peer.unwrap_or_default());
    next
}

/// Whether the peer was sent something that it should still get.
pub(super) enum LastWords {
    /// No: reset.
    None,
    /// Yes: FIN.
    Sent,
}

/// What a `CONNECT_REPLY` tells of the peer.
#[derive(Clone, Copy, Default)]
pub(super) struct ReplyInfo<'a> {
    pub(super) private_data: &'a [u8],
    pub(super) ird: u8,
    pub(super) ord: u8,
}

/// The one `CONNECT_REPLY` of an attempt.
pub(super) fn report_reply<U: User>(attempt: &Attempt<U>, status: Result, info: ReplyInfo<'_>) {
    let mut info = ConnInfo {
        local: attempt.local,
        remote: attempt.remote,
        private_data: super::event_private_data(info.private_data),
        ird: info.ird,
        ord: info.ord,
    };
    if attempt.cm.connect_reply(status, &info).is_err() {
        // iwcm has no memory to copy the private data. The event itself needs none, and without it
        // the consumer would wait for good.
        info.private_data = &[];
        if attempt.cm.connect_reply(status, &info).is_err() {
            pr_warn_once!("iwcm did not take a CONNECT_REPLY\n");
        }
    }
}

/// The peer's FIN came.
pub(super) fn report_disconnect<U: User>(established: &Established<U>) {
    // iwcm allocates for this beforehand; and should it fail, `CLOSE` says enough.
    let _ = established.cm.disconnect();
}

fn report_close(cm: &CmId, status: Result) {
    if cm.close(status).is_err() {
        pr_warn_once!("iwcm did not take a CLOSE\n");
    }
}
