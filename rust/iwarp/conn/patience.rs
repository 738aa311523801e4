// SPDX-License-Identifier: GPL-2.0

//! How long an end waits in a stage in which it also has to look now and then.
//!
//! The timer runs for a short time, again and again. The end of the wait is a point in time: on a
//! busy machine each of the short times may be late, and these delays must not add up.

use super::{timeout, transition::Transition, Rule};

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience(
    /// The [`Seen::now`](super::Seen::now) of it.
    i64,
);

/// What it means to a stage that its timer has run out.
pub(super) struct TimeOuts {
    /// The process that connects has ended.
    ///
    /// iwcm lets nobody destroy an identifier before it has its `CONNECT_REPLY`, so without this
    /// look a killed process would stay until the peer's time is up. The end of the process is not
    /// reported to the driver: the queue pair may be destroyed after the identifier.
    pub(super) orphaned: Option<&'static Rule>,
    /// No time is left.
    pub(super) late: &'static Rule,
    /// The wait goes on, and tlshd is asked for a handshake again.
    pub(super) again: Option<&'static Rule>,
    /// The wait goes on.
    pub(super) look: &'static Rule,
}

impl Patience {
    /// A wait of `ms` milliseconds from now on.
    pub(super) fn until(ms: u32, transition: &Transition<'_>) -> Self {
        Self(transition.seen.now.saturating_add(i64::from(ms)))
    }

    /// The same; sets the timer for the first look.
    pub(super) fn begin(ms: u32, transition: &mut Transition<'_>) -> Self {
        transition.wait(ms.min(timeout::ORPHAN_CHECK));
        Self::until(ms, transition)
    }

    /// Milliseconds that are left.
    pub(super) fn left(self, transition: &Transition<'_>) -> u32 {
        let left = self.0.saturating_sub(transition.seen.now);
        u32::try_from(left.saturating_sub(timeout::TICK)).unwrap_or(0)
    }

    /// Sets the timer to the next look, or to the end if that comes first. An end that `asks` tlshd
    /// for a handshake does so again soon. Returns false if no time is left.
    pub(super) fn go_on(self, asks: bool, transition: &mut Transition<'_>) -> bool {
        let look = if asks {
            timeout::PENDING
        } else {
            timeout::ORPHAN_CHECK
        };
        let left = self.left(transition);
        if left != 0 {
            transition.wait(left.min(look));
        }
        left != 0
    }

    /// The timer has run out: the stage ends, or goes on and the timer is set.
    pub(super) fn time_out(
        self,
        asks: bool,
        means: &TimeOuts,
        transition: &mut Transition<'_>,
    ) -> &'static Rule {
        if let (Some(orphaned), true) = (means.orphaned, transition.seen.orphaned) {
            return orphaned;
        }
        if !self.go_on(asks, transition) {
            return means.late;
        }
        means.again.filter(|_| asks).unwrap_or(means.look)
    }
}
