// SPDX-License-Identifier: GPL-2.0

//! What tracepoints tell of a connection.

use super::Conn;
use crate::cm::{events::Events, User};

impl<U: User> Conn<U> {
    /// Emits the `cm_stage` tracepoint for another stage, by its number.
    pub(in crate::cm) fn trace_stage(&self, from: u8, to: u8, events: Events) {
        if from != to {
            ::trace::cm_stage(|| (self.dev().name(), self.serial, from, to, events.into()));
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
