// SPDX-License-Identifier: GPL-2.0

//! One end: its TCP, which is counts of bytes.

use super::{End, Packet, BUFFER, REPEAT, TERMINATE, WINDOW};
use iwarp::conn::{Action, Input, Seen, Status};

impl End {
    /// The `CLOSE`s that iwcm was given, with their times.
    pub fn closes(&self) -> Vec<(i64, Status)> {
        let close = |&(time, action): &(i64, Action)| match action {
            Action::ReportClose(status) => Some((time, status)),
            _ => None,
        };
        self.log.iter().filter_map(close).collect()
    }

    /// What the machine is told.
    pub(super) fn see(&self, now: i64) -> Seen {
        Seen {
            now,
            acked: self.acked,
            acked_ago: u32::try_from(now - self.acked_at).unwrap_or(u32::MAX),
            received: self.arrived,
            peer_started: self.read > 1,
            leaving: self.leaving,
            orphaned: false,
            reply_end: 1,
        }
    }

    /// Reads what has arrived, and the FIN behind it.
    pub(super) fn take(&mut self) {
        if !self.reads {
            return;
        }
        self.read = self.arrived;
        if self.read > 1 {
            // A responder may send when the first FPDU has come.
            self.may_send = true;
        }
        if self.arrived_fin && !self.eof {
            self.eof = true;
            self.pending.push(Input::PeerFin);
        }
    }

    pub(super) fn ack(&self) -> Packet {
        let fin = u64::from(self.arrived_fin);
        Packet::Ack(self.arrived + fin, self.read + WINDOW)
    }

    /// Bytes that TCP takes at the moment.
    pub(super) fn free(&self) -> u64 {
        (self.acked + BUFFER).saturating_sub(self.queued)
    }

    /// Gives TCP what is posted.
    pub(super) fn post(&mut self) {
        if self.terminate && self.free() >= TERMINATE {
            self.queued += TERMINATE;
            self.terminate = false;
            // The queue pair is in ERROR, and closes.
            self.pending.push(Input::Flush);
        }
        if self.may_send && !self.fin && !self.terminate {
            let bytes = self.posted.min(self.free());
            self.queued += bytes;
            self.posted -= bytes;
        }
        if self.drains && self.posted == 0 {
            self.drains = false;
            self.pending.push(Input::Drained);
        }
    }

    pub(super) fn has_unacked(&self) -> bool {
        self.queued + u64::from(self.fin) > self.acked && !self.gone && !self.broken
    }

    /// What TCP sends now.
    pub(super) fn transmit(&mut self, now: i64) -> Option<Packet> {
        let upto = self.queued.min(self.room.max(self.sent));
        let fin = self.fin && upto == self.queued;
        let news = upto > self.sent || fin && !self.sent_fin;
        let again = self.has_unacked() && now - self.sent_at >= REPEAT;
        if !news && !again {
            return None;
        }
        (self.sent, self.sent_fin, self.sent_at) = (upto, fin, now);
        Some(Packet::Data(upto, fin))
    }

    /// Does [`Action::SendFin`].
    pub(super) fn send_fin(&mut self) -> Input {
        if self.broken || self.gone {
            return Input::FinSent;
        }
        let bytes = self.rest.min(self.free());
        self.queued += bytes;
        self.rest -= bytes;
        match () {
            () if self.no_memory => Input::TryAgain,
            () if self.rest > 0 => Input::NoRoom,
            () => {
                self.fin = true;
                Input::FinSent
            }
        }
    }
}
