// SPDX-License-Identifier: GPL-2.0

//! How long an end waits in a stage in which it also has to look now and then.
//!
//! The timer runs for a short time, again and again. The end of the wait is a point in time: on a
//! busy machine each of the short times may be late, and these delays must not add up.

use super::{timeout, Turn};

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience(
    /// The [`Seen::now`](super::Seen::now) of it.
    i64,
);

impl Patience {
    /// A wait of `ms` milliseconds from now on.
    pub(super) fn until(ms: u32, turn: &Turn<'_>) -> Self {
        Self(turn.seen.now.saturating_add(i64::from(ms)))
    }

    /// The same; sets the timer for the first look.
    pub(super) fn begin(ms: u32, turn: &mut Turn<'_>) -> Self {
        turn.wait(ms.min(timeout::ORPHAN_CHECK));
        Self::until(ms, turn)
    }

    /// Milliseconds that are left.
    pub(super) fn left(self, turn: &Turn<'_>) -> u32 {
        let left = self.0.saturating_sub(turn.seen.now);
        u32::try_from(left.saturating_sub(timeout::TICK)).unwrap_or(0)
    }

    /// Sets the timer to `look` milliseconds, or to the end if that comes first. Returns false if
    /// no time is left.
    pub(super) fn go_on(self, look: u32, turn: &mut Turn<'_>) -> bool {
        match self.left(turn) {
            0 => false,
            left => {
                turn.wait(left.min(look));
                true
            }
        }
    }

    /// The same in a TLS handshake. An end that still `asks` tlshd for it does so again soon.
    pub(super) fn go_on_with_tls(self, asks: bool, turn: &mut Turn<'_>) -> bool {
        let look = if asks {
            timeout::PENDING
        } else {
            timeout::ORPHAN_CHECK
        };
        self.go_on(look, turn)
    }
}
