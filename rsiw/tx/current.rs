// SPDX-License-Identifier: GPL-2.0

//! The message under way.

use super::outcome::Failed;
use crate::{
    mem::{gather::Gather, MemError, ResolvedMr},
    queue::{reads::Asked, Seq},
};
use iwarp::{
    rdmap::Immediate,
    tx::{Message, Segmenter},
    Msn, ReadRequest, Stag, TaggedOffset, Terminate,
};
use kernel::{alloc::Flags, prelude::*};

/// The message under way. A queue pair has one of these, which is used for one message after the
/// other in place.
pub(super) struct Current {
    /// There is a message under way.
    pub(super) active: bool,
    pub(super) segmenter: Segmenter,
    pub(super) gather: Gather,
    /// The request that the message carries out; `None` for Read responses, the RTR and a
    /// Terminate.
    pub(super) seq: Option<Seq>,
    /// The request of the peer that the message answers, and its number.
    pub(super) answers: Option<(Msn, Asked)>,
    /// Immediate Data that follow, for the same request: their number, whether they ask for an
    /// Event, and the data.
    pub(super) then: Option<(Msn, bool, [u8; 4])>,
}

impl Current {
    /// Makes one without a message; the messages to come have up to `sges` pieces each. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(super) fn none(sges: u32, flags: Flags) -> Result<Self> {
        let nothing = Message::Write {
            stag: Stag(0),
            to: TaggedOffset(0),
        };
        Ok(Self {
            active: false,
            segmenter: Segmenter::new(nothing, 0),
            gather: Gather::new(sges, flags)?,
            seq: None,
            answers: None,
            then: None,
        })
    }

    /// Begins a message whose payload is in `gather` already.
    #[inline(always)]
    pub(super) fn begin(&mut self, message: Message, len: u32, seq: Option<Seq>) {
        self.segmenter = Segmenter::new(message, len);
        self.seq = seq;
        self.active = true;
    }

    /// Ends the message, and releases its payload.
    pub(super) fn end(&mut self) {
        self.active = false;
        self.answers = None;
        self.then = None;
        self.gather.clear();
    }

    /// Begins the message that follows the one that was sent, if there is one.
    #[inline]
    pub(super) fn go_on(&mut self) -> bool {
        let goes_on = self.then.is_some();
        if goes_on {
            self.immediate();
        }
        goes_on
    }

    #[cold]
    pub(super) fn immediate(&mut self) {
        if let Some((msn, solicited, data)) = self.then.take() {
            let message = Message::Immediate {
                msn,
                solicited,
                data: Immediate::of_verbs(data),
            };
            self.gather.clear();
            self.begin(message, 0, self.seq);
        }
    }

    /// Begins a Terminate.
    pub(super) fn terminate(&mut self, term: Terminate) {
        self.end();
        self.begin(Message::Terminate { term }, 0, None);
    }

    //= 5040-5.2.1-12: Request Message, it MUST respond with a valid RDMA
    //= 5040-5.2.1-15: MUST respond with a zero-length RDMA Read Response Message.
    //= 5040-4.4-2
    /// Begins the answer to a Read of the peer.
    pub(super) fn read_response(&mut self, msn: Msn, r: ReadRequest, source: Option<ResolvedMr>) {
        self.gather.set_resolved(source, r.src_to.0, r.len);
        let message = Message::ReadResponse {
            stag: r.sink_stag,
            to: r.sink_to,
        };
        self.begin(message, r.len, None);
        self.answers = Some((msn, Asked::Read(r)));
    }

    /// The failure if the payload's memory cannot be read. For a Read of the peer it is a remote
    /// protection fault: the region was there when the request arrived, and was taken away since.
    pub(super) fn failed(&self, e: MemError) -> Failed {
        let mut failed = Failed::memory(self.seq, e);
        if let Some((msn, Asked::Read(req))) = &self.answers {
            let done = req.len - self.segmenter.remaining();
            failed.terminate = Some(Terminate::for_read_request(e.code(), *msn, req, done));
        }
        failed
    }
}

/// Where the messages of a batch come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Requests of this end and Reads of the peer.
    All,
    /// Short Reads of the peer only.
    ShortReads,
}
