// SPDX-License-Identifier: GPL-2.0

//! How long an end waits in a stage in which it also has to look now and then.
//!
//! The connection's timer runs for a short time, again and again. The end of the wait is a point in
//! time: on a busy machine each of the short times may be late, and these delays must not add up.

use super::{conn::Conn, timeout::TICK, User};
use kernel::sync::Arc;

/// The end of a wait.
#[derive(Clone, Copy)]
pub(super) struct Patience(
    /// The connection's age then, in milliseconds.
    i64,
);

impl Patience {
    /// A wait of `ms` milliseconds from now on.
    pub(super) fn new<U: User>(conn: &Conn<U>, ms: u32) -> Self {
        Self(conn.age() + i64::from(ms))
    }

    /// Milliseconds that are left.
    pub(super) fn left<U: User>(self, conn: &Conn<U>) -> u32 {
        let left = self.0 - conn.age();
        u32::try_from(left.saturating_sub(TICK)).unwrap_or(0)
    }

    /// Sets the connection's timer to `look` milliseconds, or to the end if that comes first.
    /// Returns false if no time is left.
    pub(super) fn go_on<U: User>(self, conn: &Arc<Conn<U>>, look: u32) -> bool {
        match self.left(conn) {
            0 => false,
            left => {
                conn.set_timeout(left.min(look));
                true
            }
        }
    }
}
