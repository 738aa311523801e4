// SPDX-License-Identifier: GPL-2.0

//! The repeats of an initiator's attempt, each on another connection.
//!
//! A responder may close the connection because of the reserved bit that offers large FPDUs, though
//! RFC 5044 section 7.1.1 has it ignore the bit; or because it knows only MPA revision 1. Nothing
//! tells which. So the attempt is repeated first without the offer, then with revision 1 (RFC 6581
//! section 10). An attempt that the peer's TCP refuses is repeated as well, a few times.

use super::{
    close,
    close::{LastWords, ReplyInfo},
    conn::{Conn, Events},
    initiator::{begin, Attempt},
    stage::Stage,
    timeout, Lost, User,
};
use kernel::{prelude::*, sync::Arc};
use net::errno;

/// The peer does not listen yet; it has a moment to begin.
pub(super) struct Backoff<U: User> {
    attempt: KBox<Attempt<U>>,
}

/// The attempt goes on with another connection: the peer does not take what the Request asked for,
/// or did not listen a moment ago.
pub(super) struct Retry<U: User> {
    attempt: KBox<Attempt<U>>,
    why: Error,
}

/// What the next Request does without.
#[derive(Clone, Copy)]
pub(super) enum Fallback {
    /// The offer of FPDUs that are larger than a TCP segment.
    NoLargeFpdu,
    /// That, and MPA revision 2.
    Revision1,
}

impl<U: User> Backoff<U> {
    /// Waits a little before another try. Some servers say that they are ready before they listen
    /// (perftest does, by another connection). Without the wait their clients would connect only
    /// over a slow network, or if a SYN was lost and repeated.
    pub(super) fn begin(conn: &Arc<Conn<U>>, mut attempt: KBox<Attempt<U>>) -> Stage<U> {
        attempt.place = None;
        conn.set_timeout(timeout::REFUSED << attempt.refused);
        attempt.refused += 1;
        // All tries together have no more time than one.
        attempt.connect = attempt.patience.left(conn).max(1);
        Stage::Backoff(Self { attempt })
    }

    pub(super) fn step(self, conn: &Arc<Conn<U>>, events: Events) -> Stage<U> {
        let ends = conn.how().is_some() || self.attempt.user.is_orphaned();
        if ends || events.any(Events::LEAVE) {
            let e = errno::ECONNABORTED.error();
            return close::fail_attempt(conn, &self.attempt, e, LastWords::None, None);
        }
        if !events.any(Events::TIMEOUT) {
            return Stage::Backoff(self);
        }
        try_again(conn, self.attempt, errno::ECONNREFUSED.error())
    }
}

impl Fallback {
    /// Ends the connection of an attempt that is repeated with less.
    pub(super) fn begin<U: User>(
        self,
        conn: &Arc<Conn<U>>,
        mut attempt: KBox<Attempt<U>>,
        why: Error,
    ) -> Stage<U> {
        conn.dev().counters.connects_repeated.add(1);
        attempt.large_fpdu = false;
        if let Self::Revision1 = self {
            attempt.revision = 1;
        }
        attempt.connect = timeout::CONNECT;
        try_again(conn, attempt, why)
    }
}

/// Ends the connection of an attempt that goes on with another one. The consumer gets the error
/// `why` if the other one cannot even be begun.
fn try_again<U: User>(conn: &Arc<Conn<U>>, mut attempt: KBox<Attempt<U>>, why: Error) -> Stage<U> {
    // Release the old connection first: the queue pair takes one at a time, and the port may be the
    // consumer's choice.
    conn.leave();
    conn.socket().abort();
    attempt.place = None;
    attempt.user.lost(Lost::Handshake);
    Stage::Retry(Retry { attempt, why })
}

impl<U: User> Retry<U> {
    /// Begins the other connection, on behalf of `conn`. Context: sleeping; the stage of `conn` is
    /// not locked.
    pub(super) fn run(self, conn: &Conn<U>) {
        let Self { attempt, why } = self;
        let guard = conn.dev().handle().and_then(|handle| handle.try_get());
        let begun = match guard {
            Some(dev) => begin(&conn.registry, &dev, attempt, Some(conn.socket())),
            None => Err((why, Some(attempt))),
        };
        if let Err((_, Some(attempt))) = begun {
            close::count_failure(conn, why, false);
            close::report_reply(&attempt, Err(why), ReplyInfo::default());
        }
    }
}
