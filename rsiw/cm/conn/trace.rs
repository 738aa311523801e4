// SPDX-License-Identifier: GPL-2.0

//! What tracepoints tell of a connection.

use super::Conn;
use crate::cm::{events::Events, User};
use iwarp::conn::StageName;

impl<U: User> Conn<U> {
    /// Emits the `cm_stage` tracepoint if the stage is another one.
    pub(in crate::cm) fn trace_stage(&self, from: StageName, to: StageName, events: Events) {
        if from != to {
            ::trace::cm_stage(|| {
                let dev = self.dev().name();
                (dev, self.serial, number(from), number(to), events.into())
            });
        }
    }

    /// Emits the `mpa_frame` tracepoint for an MPA Request or Reply.
    pub(in crate::cm) fn trace_frame(&self, out: bool, frame: &[u8]) {
        ::trace::mpa_frame(|| {
            let byte = |i| frame.get(i).copied().unwrap_or(0);
            // Keys are "MPA ID Req Frame" and "MPA ID Rep Frame".
            let reply = byte(9) == b'p';
            let len = u16::from_be_bytes([byte(18), byte(19)]);
            let dev = self.dev().name();
            (dev, self.serial, out, reply, byte(16), byte(17), len)
        });
    }
}

/// The number that tracepoints know a stage by.
fn number(stage: StageName) -> u8 {
    match stage {
        StageName::AwaitTlsSlot => 0,
        StageName::Connecting => 1,
        StageName::Backoff => 2,
        StageName::AwaitReply => 3,
        StageName::AwaitOctet => 4,
        StageName::Securing | StageName::AwaitTls => 5,
        StageName::AwaitRequest => 6,
        StageName::Requested => 7,
        StageName::Streaming => 8,
        StageName::Draining => 9,
        StageName::FinSent => 10,
        StageName::Linger => 11,
        StageName::Retry => 12,
        StageName::New | StageName::Closed => 13,
        StageName::Queued => 14,
        StageName::Parked => 15,
    }
}
