// SPDX-License-Identifier: GPL-2.0

//! The RTR (ready to receive): an initiator's first message, by which a responder learns that it
//! may send (RFC 6581 section 9.2). `rust/iwarp/mpa/rtr.rs` has the kinds, on one of which
//! both ends have agreed.

use super::{outcome::Failed, Tx};
use crate::queue::Queues;
use iwarp::{mpa::Rtr, tx::Message, Stag, TaggedOffset};

impl Tx {
    /// Has `rtr` sent before the next message: an initiator's first message, or its repetition.
    /// Context: any.
    pub(crate) fn owe_rtr(&mut self, rtr: Rtr) {
        self.owed_rtr = Some(rtr);
    }

    //= 6581-9.2-7
    /// Begins the initiator's ready-to-receive indication (RFC 6581 section 9).
    #[cold]
    pub(super) fn rtr(&mut self, queues: &Queues, rtr: Rtr) -> Result<(), Failed> {
        let (stag, to) = (Stag::UNNAMED, TaggedOffset(0));
        let message = match rtr {
            Rtr::Send => {
                let msn = self.send_msn;
                self.send_msn = msn.next();
                Message::Send {
                    msn,
                    solicited: false,
                    invalidate: None,
                }
            }
            Rtr::Write => Message::Write { stag, to },
            Rtr::Read => return self.empty_read(queues, None, to),
        };
        self.current.begin(message, 0, None);
        Ok(())
    }
}
