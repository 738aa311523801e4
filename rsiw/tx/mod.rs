// SPDX-License-Identifier: GPL-2.0

//! Transmit: makes FPDUs of requests and Read responses, and batches of FPDUs.
//!
//! A batch is the data that one call hands to TCP: FPDUs back to back, up to 64 KiB, assembled in
//! pages that TCP then owns (TCP copies a short one). FPDUs of a long message have the length of a
//! TCP segment. If one would cross the end of a segment, it is cut to end there, or begins the next
//! batch. So segmentation offload cuts between FPDUs, and each TCP segment begins with an FPDU (RFC
//! 5044 section 5, "FPDU alignment"), as a hardware peer expects. Large FPDUs are the exception.
//!
//! `stream::sched` runs tx, step by step. A step fills a batch and sends it:
//!
//! 1. [`SendQueue::pull`](crate::queue::sq::SendQueue::pull) takes the next request and checks it.
//! 2. [`Gather`](crate::mem::gather::Gather) resolves its keys to regions, once.
//! 3. `iwarp::tx::Segmenter` and `iwarp::tx::Framer` make the headers, copy the payload once, and
//!    take the CRC of the copy at the same time.
//! 4. [`Transport::send`] hands the batch to TCP.
//!
//! A request completes when TCP has taken the batch with its last byte. As the payload was copied,
//! its buffers are free then. The CRC is that of the copy, so both agree even if the application
//! changes its buffer meanwhile. Long messages of kernel consumers may go without that copy, and
//! complete later ([`zerocopy`]). So do Writes of programs that expect InfiniBand ([`confirm`]).
//!
//! A QP has one message and one gather list for all of its life, and requests are processed in
//! place: to pass them by value copied some 3 KiB for a Write of two bytes. The regions that the
//! last message resolved serve the next one; key, right and bounds are checked each time.

mod batch;
mod confirm;
mod current;
mod local_ops;
mod message;
mod outcome;
mod payload;
mod rtr;
mod unreleased;
mod zerocopy;

pub(crate) use outcome::{Failed, Step};

use crate::{
    abi::sges_beyond,
    counters::Traffic,
    cq::Notify,
    mem::ResolvedMr,
    queue::{state::State, Queues, Seq},
    transport::Transport,
    wr::{SendOp, SendWr},
};
use confirm::Unconfirmed;
use core::mem::{replace, take};
use current::{Current, Source};
use iwarp::{conn::rnr::RnrRetry, mpa::Rtr, tx::Framer, Terminate};
use kernel::{alloc::Flags, prelude::*};
use net::{LockedSock, Sent, TxBatch};
use outcome::Filled;
use trace::Stall;
use unreleased::Unreleased;

/// Bytes that the receive callback hands to TCP in one run, as it keeps the CPU from whatever it
/// has interrupted. The worker sends the rest.
const CALLBACK_BUDGET: usize = 16 << 10;

/// Segments in a batch of the receive callback. TCP processes its backlog in the middle of a send
/// after 16 segments (`tcp_sendmsg_locked()`). These are far fewer, as TCP may cut smaller ones.
const SEGMENTS_HERE: usize = 8;

/// The least MSS with which the receive callback answers Reads. With a smaller one TCP's options
/// are a good part of a segment.
const CALLBACK_MIN_MSS: usize = 512;

/// What is to be counted when TCP has taken the batch.
#[derive(Default)]
struct Ops {
    fpdus: u32,
    /// Messages that end in it.
    messages: u32,
    /// Operations that begin in it.
    sends: u32,
    writes: u32,
    reads: u32,
    read_responses: u32,
}

impl Ops {
    fn count(self, counters: &Traffic) {
        counters.tx_fpdus.add_alone(self.fpdus.into());
        counters.tx_messages.add_alone(self.messages.into());
        counters.tx_op_sends.add_alone(self.sends.into());
        counters.tx_op_writes.add_alone(self.writes.into());
        counters.tx_op_reads.add_alone(self.reads.into());
        counters
            .tx_op_read_responses
            .add_alone(self.read_responses.into());
    }
}

/// The agreed parameters of a connection's outbound half.
pub(crate) struct TxConfig {
    pub(crate) crc: bool,
    pub(crate) markers: bool,
    /// FPDUs may span TCP segments: both ends are software and have agreed to that.
    pub(crate) large_fpdu: bool,
    /// Memory of the consumer, a kernel one, may be sent without a copy ([`zerocopy`]). There are
    /// large FPDUs, and neither CRCs nor markers nor confirmations.
    pub(crate) zerocopy: bool,
    /// The peer takes Sends with immediate data.
    pub(crate) send_immediate: bool,
    /// Writes complete when the peer has placed them ([`confirm`]).
    pub(crate) confirms: bool,
    /// The peer may have its Writes confirmed, too.
    pub(crate) peer_confirms: bool,
}

/// The outbound half of a stream.
pub(crate) struct Tx {
    cfg: TxConfig,
    framer: Framer,
    batch: TxBatch,
    /// What the batch under way has.
    ops: Ops,
    current: Current,
    /// The request that was taken last. It is large, so it stays in place.
    wr: SendWr,
    /// The scatter/gather elements that `wr` has no room for. Its capacity suffices for the longest
    /// list.
    rest: KVec<rdma::Sge>,
    /// The region that the last RDMA Read of this end may write to.
    sink: Option<ResolvedMr>,
    /// The request in `wr`, if it waits for RDMA Reads before it.
    blocked: Option<Seq>,
    /// Requests before this one are in the batch or sent, and have yet to complete. `None`: no such
    /// request.
    built: Option<Seq>,
    send_msn: iwarp::Msn,
    read_msn: iwarp::Msn,
    atomic_msn: iwarp::Msn,
    response_turn: bool,
    /// The last request that has begun a message is an RDMA Write.
    wrote: bool,
    /// The RTR that is to be sent before the next message.
    owed_rtr: Option<Rtr>,
    unconfirmed: Unconfirmed,
    /// What waits until TCP has released memory; `None` if payload is copied always.
    unreleased: Option<KBox<Unreleased>>,
    /// How often, as the peer knows, this end's Sends are tried again.
    told: RnrRetry,
    /// A request that cannot be sent, and fails when all before it have completed ([`confirm`]).
    failing: Option<Failed>,
    terminated: bool,
    /// See [`Tx::last_answers`].
    answered_last: bool,
    /// See [`Tx::end`].
    fin: bool,
    /// The consumer's calls that the completions of the last step ask for.
    notify: Notify,
}

impl Tx {
    //= 5041-4.3-9
    /// Makes the outbound half, before the first FPDU, for a queue whose requests have up to `sges`
    /// elements. `batch` is empty. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(batch: TxBatch, cfg: TxConfig, sges: u32, flags: Flags) -> Result<Self> {
        Ok(Self {
            batch,
            framer: Framer::new(cfg.crc, cfg.markers),
            ops: Ops::default(),
            current: Current::none(sges, flags)?,
            wr: SendWr::new(0, SendOp::Send, 0, 0),
            rest: KVec::with_capacity(sges_beyond(sges), flags)?,
            sink: None,
            blocked: None,
            built: None,
            send_msn: iwarp::Msn::FIRST,
            read_msn: iwarp::Msn::FIRST,
            atomic_msn: iwarp::Msn::FIRST,
            response_turn: true,
            wrote: false,
            owed_rtr: None,
            unconfirmed: Unconfirmed::NOTHING,
            unreleased: Unreleased::of(cfg.zerocopy, flags)?,
            cfg,
            told: RnrRetry::FOR_EVER,
            failing: None,
            terminated: false,
            answered_last: false,
            fin: false,
            notify: Notify::default(),
        })
    }

    /// Whether TCP has not taken all of the batch. It has to before the next step.
    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        !self.batch.is_empty()
    }

    /// The consumer's calls that the last step has left to do.
    #[inline]
    pub(crate) fn take_notify(&mut self) -> Notify {
        take(&mut self.notify)
    }

    //= 5040-6.1-1: mode, an implementation MUST send only RDMA Messages across
    //= 5041-3-4
    /// Hands the batch to TCP.
    ///
    /// Returns [`Step::Sent`] when TCP has taken all of it, [`Step::Waits`] or [`Step::NoMemory`]
    /// when it has not, or [`Step::Broken`]. Context: sleeping.
    #[inline]
    pub(crate) fn flush(&mut self, queues: &Queues, transport: &impl Transport) -> Step {
        self.flush_by(queues, transport, |batch| transport.send(batch))
    }

    #[inline]
    fn flush_by(
        &mut self,
        queues: &Queues,
        transport: &impl Transport,
        mut send: impl FnMut(&mut TxBatch) -> Result<Sent>,
    ) -> Step {
        let counters = &queues.counters;
        let mut total = 0;
        while !self.batch.is_empty() {
            match send(&mut self.batch) {
                Ok(Sent::Bytes(n)) => {
                    if self.batch.refers() {
                        self.note_referring(transport);
                    }
                    self.batch.consume(n);
                    total += n;
                    counters.tx_sends.add_alone(1);
                    counters.tx_bytes.add_alone(n as u64);
                }
                Ok(Sent::WouldBlock) if transport.has_room() => return no_memory(queues),
                Ok(Sent::WouldBlock) => {
                    counters.tx_stalls.add_alone(1);
                    counters.tx_stalls_window.add_alone(1);
                    queues.trace_stall(Stall::Window);
                    return Step::Waits;
                }
                Err(_) => return Step::Broken,
            }
        }
        if total != 0 {
            take(&mut self.ops).count(counters);
        }
        // Requests that needed no message, too.
        self.complete(queues);
        Step::Sent(total)
    }

    //= 5044-7.1.2-8
    /// Fills a batch and hands it to TCP. The one before is with TCP, and the QP is in RTS or
    /// CLOSING. Context: sleeping.
    ///
    /// Inlined where it runs for each message, though the close calls it, too.
    #[inline(always)]
    pub(crate) fn send_next(&mut self, queues: &Queues, transport: &impl Transport) -> Step {
        if self.fin {
            // The FIN is sent, or will be at once. Requests that came too late are flushed when the
            // connection is gone.
            return Step::Waits;
        }
        // This comes before the look at the queue. The peer's last message may have let requests
        // start: tx then finds and sends them before it says that nothing is left.
        let peer_done = queues.peer_done();
        if queues.is_closing() && (peer_done || queues.sq.is_idle()) {
            // Not before: if both ends close, each waits for the other's answers.
            queues.inbound.end_here();
        }
        if !queues.may_send() {
            // This end may send no FPDU yet, but a FIN.
            return self.end_if_drained(queues, peer_done);
        }
        if let Some(failed) = self.take_failing(queues) {
            return Step::Failed(failed);
        }
        match self.fill(queues, transport, Source::All, usize::MAX) {
            // A consumer that posts another request while these are sent wakes tx.
            Ok(Filled::Whole) => match self.flush(queues, transport) {
                Step::Sent(_) => self.end_if_drained(queues, peer_done),
                stalled => stalled,
            },
            Ok(Filled::Part) if self.batch.is_empty() => {
                // None of so many requests needs a message. Completing them frees their slots.
                let room = self.built.is_some();
                self.complete(queues);
                if room {
                    return Step::Again;
                }
                // The peer may have sent its FIN instead of the response that they wait for.
                self.end_if_drained(queues, peer_done)
            }
            Ok(Filled::Part) => self.flush(queues, transport),
            Ok(Filled::NoMemory) => {
                // Requests before may have needed no message.
                self.complete(queues);
                no_memory(queues)
            }
            Err(failed) => {
                // Requests before the failed one are sent first.
                if self.batch.is_empty() {
                    self.complete(queues);
                }
                match self.keep_failing(failed) {
                    Some(failed) => Step::Failed(failed),
                    None => self.flush(queues, transport),
                }
            }
        }
    }

    /// Answers the peer's short Reads, if tx is at rest. Context: callback, the socket is locked.
    pub(crate) fn answer(
        &mut self,
        queues: &Queues,
        transport: &impl Transport,
        sk: &mut LockedSock,
    ) -> Step {
        // A batch waits for room, a message or the RTR goes first, the transport needs a process,
        // segments are too small, or the QP may not send (yet, or any more): the worker answers, in
        // turn.
        let busy = !self.batch.is_empty() || self.current.active || self.owed_rtr.is_some();
        let busy = busy || !transport.works_in_callback();
        let mss = transport.segment_len() as usize;
        if busy || mss < CALLBACK_MIN_MSS || queues.state() != State::Rts || !queues.may_send() {
            return Step::Again;
        }
        let most = SEGMENTS_HERE.saturating_mul(mss);
        let mut left = CALLBACK_BUDGET;
        self.batch.set_atomic(true);
        let end = loop {
            let filled = self.fill(queues, transport, Source::ShortReads, left.min(most));
            let sent = self.flush_by(queues, transport, |batch| transport.send_locked(sk, batch));
            match (filled, sent) {
                // A TCP segment, or the batch, was full, and there is budget left.
                (Ok(Filled::Part), Step::Sent(n)) if n != 0 && n < left => left -= n,
                (Ok(_), Step::Sent(_)) => break Step::Waits,
                (Ok(_), stalled) => break stalled,
                // The worker sends the Terminate, after the answers.
                (Err(failed), _) => break Step::Failed(failed),
            }
        };
        self.batch.set_atomic(false);
        // The worker sends the rest in turn; it may also sleep for memory.
        let rest = !self.batch.is_empty() || self.current.active || !queues.inbound.is_empty();
        match end {
            Step::Waits | Step::NoMemory if rest => Step::Again,
            end => end,
        }
    }

    //= 5040-5.5-5: RDMA Write Message MUST NOT be considered Complete at
    /// Completes the requests whose last byte TCP has taken, when it refers to no memory.
    fn complete(&mut self, queues: &Queues) {
        if let Some(seq) = self.built.take() {
            if !self.awaits_release(seq) {
                self.notify |= queues.sq.sent(seq, queues.send_out());
            }
        }
    }

    //= 5041-6.2.1-1
    /// In an orderly close, which ends the queue, tells when nothing is left to send. Reads that
    /// wait for their responses delay that only while the peer can still answer.
    #[inline]
    fn end_if_drained(&mut self, queues: &Queues, peer_done: bool) -> Step {
        if queues.sq.has_end() {
            // The peer that has sent its FIN acknowledges what is with TCP nevertheless.
            Self::look_for_end(queues, peer_done && !self.is_lending())
        } else {
            Step::Waits
        }
    }

    #[cold]
    fn look_for_end(queues: &Queues, peer_done: bool) -> Step {
        if !queues.is_closing() {
            Step::Held
        } else if peer_done || queues.sq.is_idle() {
            Step::Drained
        } else {
            Step::Waits
        }
    }

    /// The FIN may be sent from now on, and nothing behind it. Context: tx.
    pub(crate) fn end(&mut self) {
        self.fin = true;
    }

    //= 5040-5.4-8: the Local Peer MUST NOT send any more Messages
    //= 5040-7-1, 5040-7.1-2, 5044-8-4
    /// Sends the Terminate that is `due`, if there is one. The batch before is with TCP. Context:
    /// sleeping.
    #[cold]
    pub(crate) fn terminate(
        &mut self,
        queues: &Queues,
        transport: &impl Transport,
        due: Option<Terminate>,
    ) -> Step {
        if !replace(&mut self.terminated, true) {
            self.answer_empty(queues, transport);
            self.current.end();
            self.blocked = None;
            if let Some(t) = due {
                queues.counters.terminate_sent(t.code());
                queues.dev.terminates_sent.count(t.code());
                trace::terminate(|| queues.trace_terminate(true, t.code()));
                self.current.terminate(t);
                // Without memory the peer gets a FIN alone.
                let _ = self.append(transport);
                self.current.end();
                // Sent at once. Otherwise TCP might hold it back until the FIN, which may come only
                // later.
                self.batch.set_last();
            }
            // If the socket has no room, the peer does not read. When it does, the worker sends the
            // rest; if it never does, the connection's guard timer ends the connection.
            match self.flush(queues, transport) {
                Step::Sent(_) => {}
                stalled => return stalled,
            }
        }
        if self.batch.is_empty() && !self.is_lending() {
            Step::Terminated
        } else {
            // The connection would be reset, and the peer might not get the Terminate.
            Step::Waits
        }
    }

    /// Ends transmission. If TCP has taken only a part of a batch, returns the rest: without it the
    /// stream would end in the middle of an FPDU. So it does with [`Self::last_answers`].
    pub(crate) fn leave(&mut self) -> Option<TxBatch> {
        let is_left = self.batch.is_begun() || self.answered_last;
        (is_left && !self.must_reset()).then(|| take(&mut self.batch))
    }
}

/// Tx has no memory to go on.
#[cold]
fn no_memory(queues: &Queues) -> Step {
    queues.counters.tx_stalls.add_alone(1);
    queues.counters.tx_stalls_memory.add_alone(1);
    queues.trace_stall(Stall::Memory);
    Step::NoMemory
}
