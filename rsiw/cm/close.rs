// SPDX-License-Identifier: GPL-2.0

//! How connections end that are not established, and what iwcm is told of an attempt to connect.
//!
//! Before the queue pair runs, an initiator reports `CONNECT_REPLY` with an error in place of
//! `CLOSE`, and a responder reports nothing. [`run`](super::run) has the order of teardown with a
//! queue pair.

use super::{conn::Conn, initiator::Attempt, run::Run, stage::Stage, Lost, User};
use kernel::{pr_warn_once, prelude::*, sync::Arc};
use net::errno;
use rdma::ConnInfo;

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
        LastWords::Sent => Run::linger(conn, None),
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
