// SPDX-License-Identifier: GPL-2.0

//! How a responder's connection ends that is not established: nobody is told.
//! [`run`](super::run) has the ends of which somebody is.

use super::{conn::Conn, stage::Stage, User};
use kernel::sync::Arc;

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
