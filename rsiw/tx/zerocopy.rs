// SPDX-License-Identifier: GPL-2.0

//! Sends kernel consumers' memory without a copy.
//!
//! It is memory that a Write or a Send names by the local DMA key, so it is lent for that request
//! alone, and no STag leads to it: neither deregistration nor invalidation takes it away. Payload
//! that an STag names is copied always. TCP, which may send bytes again until the peer has
//! acknowledged them, would read what is not to be read any more.
//!
//! A request completes only when TCP has [released](net::Released) what it refers to, as its
//! consumer changes or frees the memory then; and so do all requests behind it, which complete in
//! order. An acknowledgment comes earlier: see `rust/ksock/zerocopy.c`. A stream that ends before
//! is reset, and its requests are flushed when the memory is released (`stream::teardown`).
//! Otherwise the peer might take what the consumer has written meanwhile for the data.
//!
//! An FPDU without a copy has no CRC, and is large. It needs a page for its header and trailer
//! beside those of the payload, so it is cut where a packet has no room for more.

use super::{
    outcome::{Failed, Filled},
    payload::{Referring, Stop, LARGE, OVERHEAD},
    Tx,
};
use crate::{
    queue::{Queues, Seq},
    transport::Transport,
};
use iwarp::tx::Segment;
use net::{PageSpan, TxBatch};

/// The least bytes of an FPDU that are not copied. References and their end cost as much as a copy
/// of a few pages.
const LEAST: usize = 32 << 10;

/// The most runs of memory in an FPDU; header and trailer are two more.
const MOST_RUNS: usize = TxBatch::MAX_SPANS - 2;

/// What came of an attempt to append an FPDU without a copy.
pub(super) enum Refer {
    /// Its payload has to be copied.
    Not,
    /// It is in the batch.
    Done,
    /// Nothing more goes into the batch.
    End(Result<Filled, Failed>),
}

impl Tx {
    /// Whether the rest of the message under way may be sent without a copy.
    #[inline]
    pub(super) fn may_refer(&self) -> bool {
        let unreleased = self.unreleased.as_ref();
        unreleased.is_some_and(|unreleased| {
            let left = self.current.segmenter.remaining() as usize;
            left >= LEAST && self.current.seq.is_some() && unreleased.has_room()
        })
    }

    /// Appends the next FPDU of the message under way without a copy of its payload, if that
    /// [may be](Self::may_refer), and ends the message if it is the last. `fpdu` is room for it.
    #[inline(never)]
    pub(super) fn refer(
        &mut self,
        queues: &Queues,
        transport: &impl Transport,
        fpdu: &mut Segment,
    ) -> Refer {
        let end = match self.put_referring(transport, fpdu) {
            Ok(Some(true)) => {
                trace::fpdu_tx(|| {
                    let (dev, qpn) = (queues.dev.name(), queues.number());
                    (dev, qpn, fpdu.opcode(), fpdu.fpdu_len() as u32, 1)
                });
                if self.current.segmenter.done() {
                    self.end_message(queues);
                }
                return Refer::Done;
            }
            Ok(Some(false)) => return Refer::Not,
            Err(Stop::Memory(e)) => Err(self.current.failed(e)),
            Err(Stop::NoMemory) if self.batch.is_empty() => Ok(Filled::NoMemory),
            Ok(None) | Err(Stop::NoMemory) => Ok(Filled::Part),
        };
        Refer::End(end)
    }

    /// Appends `fpdu`, as above. Returns whether it did, or `None` if it is the first of another
    /// batch. After an error nothing was appended.
    fn put_referring(
        &mut self,
        transport: &impl Transport,
        fpdu: &mut Segment,
    ) -> Result<Option<bool>, Stop> {
        let runs = self.batch.spans_left().saturating_sub(2).min(MOST_RUNS);
        let room = self.batch.room().min(LARGE).saturating_sub(OVERHEAD) & !3;
        if !transport.may_refer() {
            return Ok(Some(false));
        }
        let left = self.current.segmenter.remaining() as usize;
        let mut spans = [const { PageSpan::empty() }; MOST_RUNS];
        let found = self.find_runs(&mut spans[..runs], room.min(left))?;
        // Another FPDU follows in words of four bytes.
        let len = if found < left { found & !3 } else { found };
        if len < LEAST {
            return Ok(self.batch.is_empty().then_some(false));
        }
        let segmenter = &mut self.current.segmenter;
        let mark = segmenter.mark();
        if !segmenter.next_into(iwarp::MAX_ULPDU, fpdu) {
            return Ok(Some(false));
        }
        if usize::from(fpdu.payload_len()) > len {
            let beyond = usize::from(fpdu.payload_len()) - len;
            let ulpdu = fpdu.ulpdu_len().saturating_sub(beyond as u16);
            segmenter.rewind(mark);
            if !segmenter.next_into(ulpdu, fpdu) {
                return Ok(Some(false));
            }
        }
        let before = self.batch.len();
        let mut out = Referring {
            batch: &mut self.batch,
            spans: spans.into_iter(),
        };
        match self.framer.write(fpdu, &mut out) {
            Ok(()) => {
                self.current.gather.skip(fpdu.payload_len().into());
                self.ops.fpdus += 1;
                Ok(Some(true))
            }
            Err(stop) => {
                self.batch.rollback(before);
                self.current.segmenter.rewind(mark);
                Err(stop)
            }
        }
    }

    /// Finds the next bytes of the payload, up to `most`, as many as are in so many runs that TCP
    /// can refer to. Returns how many they are.
    fn find_runs(&mut self, runs: &mut [PageSpan], most: usize) -> Result<usize, Stop> {
        let gather = &mut self.current.gather;
        let begin = gather.position();
        let mut found = 0;
        for run in runs {
            if found == most {
                break;
            }
            let next = gather.refer(most - found);
            match next
                .inspect_err(|_| gather.seek(begin))
                .map_err(Stop::Memory)?
            {
                Some(span) => {
                    found += span.len();
                    *run = span;
                }
                None => break,
            }
        }
        gather.seek(begin);
        Ok(found)
    }

    /// TCP has taken bytes of a batch that refers to memory.
    #[cold]
    pub(super) fn note_referring(&mut self, transport: &impl Transport) {
        if let Some(unreleased) = &mut self.unreleased {
            unreleased.note(transport.referred());
        }
    }

    /// Whether TCP refers to memory. Then the requests before `seq` complete when it has released
    /// it.
    #[inline]
    pub(super) fn awaits_release(&mut self, seq: Seq) -> bool {
        match &mut self.unreleased {
            Some(unreleased) if unreleased.is_any() => {
                unreleased.await_release(seq);
                true
            }
            _ => false,
        }
    }

    /// Whether TCP refers to memory.
    #[inline]
    pub(crate) fn is_lending(&self) -> bool {
        let unreleased = self.unreleased.as_ref();
        unreleased.is_some_and(|unreleased| unreleased.is_any())
    }

    /// Completes the requests whose memory TCP has released. Returns false if the stream has to
    /// end. Context: tx.
    #[cold]
    pub(crate) fn take_released(&mut self, queues: &Queues, transport: &impl Transport) -> bool {
        match self.look(transport) {
            Ok(Some(seq)) => self.notify |= queues.sq.sent(seq, queues.send_out()),
            Ok(None) => {}
            Err(()) => return false,
        }
        true
    }

    fn look(&mut self, transport: &impl Transport) -> Result<Option<Seq>, ()> {
        let unreleased = self.unreleased.as_mut();
        unreleased.map_or(Ok(None), |unreleased| unreleased.look(transport))
    }

    /// Whether TCP refers to memory, or is to do so with the rest of a batch, of which it has the
    /// beginning. The stream has to be reset if it ends now.
    pub(crate) fn must_reset(&self) -> bool {
        self.is_lending() || self.batch.refers() && self.batch.is_begun()
    }

    /// Whether TCP refers to memory still, when it was reset. Nothing completes here. Context: tx
    /// has stopped.
    pub(crate) fn lends_still(&mut self, transport: &impl Transport) -> bool {
        let _ = self.look(transport);
        self.is_lending()
    }
}
