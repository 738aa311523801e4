// SPDX-License-Identifier: GPL-2.0

//! A connection that was refused, and is made once more. The machine decides on that
//! (`rust/iwarp/conn/retry.rs`); Documentation/connection.md has the reasons.

use super::{attempt::Attempt, begin};
use crate::cm::{conn::Conn, User};
use kernel::{prelude::*, sync::Arc};

/// The attempt goes on with another connection: the peer does not take what the Request asked for,
/// or did not listen a moment ago.
pub(in crate::cm) struct Retry<U: User> {
    pub(in crate::cm) attempt: KBox<Attempt<U>>,
    /// The consumer gets this error if the other connection cannot even be begun.
    pub(in crate::cm) why: Error,
}

impl<U: User> Retry<U> {
    /// Begins the other connection, on behalf of `conn`. Context: sleeping; the stage of `conn` is
    /// not locked.
    pub(in crate::cm) fn run(self, conn: &Arc<Conn<U>>) {
        let Self { attempt, why } = self;
        let guard = conn.dev().handle().and_then(|handle| handle.try_get());
        let begun = match guard {
            Some(dev) => begin(&conn.registry, &dev, attempt, Some(conn.socket())),
            None => Err((why, Some(attempt))),
        };
        if let Err((_, Some(attempt))) = begun {
            attempt.fail(conn, why);
        }
    }
}
