// SPDX-License-Identifier: GPL-2.0

//! The first FPDU: which end sends it, and what this end does if it does not come.

use super::{timeout, transition::Transition};

/// Which end may send first, and what this end does if neither sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// This end, at once: it is the initiator and owes no RTR.
    Ours,
    /// This end, the initiator, which has sent an RTR. If the peer stays silent, it may have missed
    /// the RTR. The value is what had come from the peer before the RTR was sent
    /// ([`Seen::received`](super::Seen::received)).
    OurRtr(u64),
    /// The peer, which owes an RTR.
    Rtr,
    /// The peer, which has called by name, and owes an RTR. The value is what had come from it
    /// before it was admitted ([`Seen::received`](super::Seen::received)). Until more comes, it may
    /// be without this end's Reply, and call again if the connection ends.
    Call(u64),
    /// The peer, which owes no RTR. If it sends nothing for `wait` milliseconds after it has
    /// acknowledged the Reply, this end assumes that both wait, and sends; if `wait` is 0, it never
    /// does.
    Theirs {
        /// The setting `responder_wait_ms` when the connection began.
        wait: u32,
        /// Whether the peer has the Reply.
        reply: Reply,
    },
}

/// The peer's acknowledgment of the Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It has not come. The value is the [`Seen::acked`](super::Seen::acked) that tells it.
    Sent(u64),
    /// It has come. The value is the [`Seen::now`](super::Seen::now) at which the wait is over.
    Acked(i64),
}

/// Whether this end has to wait before it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// It does not: it may send, or may not whatever it waits for.
    No,
    /// It does. The time-out is set.
    Waits,
    /// The peer has been silent for long enough. This end may send now.
    Over,
}

impl First {
    /// Whether the peer has been silent for long enough since it has had our Reply; sets a time-out
    /// for the rest of that time. TCP may have to send the Reply more than once, so the time counts
    /// from its acknowledgment.
    pub(super) fn silence(&mut self, transition: &mut Transition<'_>) -> Silence {
        let &mut First::Theirs {
            wait: wait @ 1..,
            reply,
        } = self
        else {
            return Silence::No;
        };
        let seen = transition.seen;
        let end = match reply {
            Reply::Acked(end) => end,
            Reply::Sent(bytes) if seen.acked < bytes => {
                transition.wait(wait.max(timeout::LOOK));
                return Silence::Waits;
            }
            Reply::Sent(_) => {
                // Later acknowledgments, those of keep-alive probes for instance, do not start the
                // time again.
                let heard = seen.now.saturating_sub(i64::from(seen.acked_ago));
                let end = heard.saturating_add(i64::from(wait));
                let reply = Reply::Acked(end);
                *self = First::Theirs { wait, reply };
                end
            }
        };
        match u32::try_from(end.saturating_sub(seen.now)) {
            Ok(left @ 1..) => {
                transition.wait(left);
                Silence::Waits
            }
            // The time is over.
            _ => Silence::Over,
        }
    }
}
