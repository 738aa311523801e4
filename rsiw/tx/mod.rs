// SPDX-License-Identifier: GPL-2.0

//! Transmit: makes FPDUs of requests and Read responses, and batches of FPDUs.
//!
//! A batch is the data that one call hands to TCP: FPDUs back to back, up to 64 KiB, assembled in
//! pages that TCP then owns (TCP copies a short one). FPDUs of a long message have the length of a
//! TCP segment. If one would cross the end of a segment, it is cut to end there, or begins the next
//! batch. So segmentation offload cuts between FPDUs, and each TCP segment begins with an FPDU (RFC
//! 5044 section 5, "FPDU alignment"), as a hardware peer expects. Large FPDUs are the exception.
//!
//! The tx actor is the thread that has locked the QP's `tx`: a process that rings the doorbell, the
//! module's worker, or the receive callback, which answers short Reads. An RDMA Write takes these
//! steps:
//!
//! 1. The consumer posts: `verbs::qp::doorbell` or `post_send` call [`sched`](crate::sched).
//! 2. [`SendQueue::pull`](crate::qp::sq::SendQueue::pull) takes the next request and checks it.
//! 3. [`Gather`](crate::mem::gather::Gather) resolves its keys to regions, once.
//! 4. `iwarp::tx::Segmenter` and `iwarp::tx::Framer` make the headers, copy the payload once, and
//!    take the CRC of the copy at the same time.
//! 5. [`TcpSocket::send_batch`](net::TcpSocket::send_batch) hands the batch to TCP.
//!
//! A request completes when TCP has taken the batch with its last byte. As the payload was copied,
//! its buffers are free then.

mod batch;
mod message;

use crate::{
    abi::{sges_beyond, Sge},
    cm::Close,
    mem::{MemError, ResolvedMr},
    qp::{
        sq::{Seq, WakeTx},
        state::State,
        Conn, Qp,
    },
    wr::{SendOp, SendWr, Status},
};
use batch::Filled;
use iwarp::{tx::Framer, Terminate};
use kernel::{prelude::*, sync::Arc};
use message::Current;
use net::{LockedSock, Sent, TxBatch};

/// Bytes that the receive callback hands to TCP in one run, as it keeps the CPU from whatever it
/// has interrupted. The worker sends the rest.
const BUDGET_HERE: usize = 16 << 10;

/// Segments in a batch of the receive callback. TCP processes its backlog in the middle of a send
/// after 16 segments (`tcp_sendmsg_locked()`). These are far fewer, as TCP may cut smaller ones.
const SEGMENTS_HERE: usize = 8;

/// The least MSS with which the receive callback answers Reads. With a smaller one TCP's options
/// are a good part of a segment.
const LEAST_MSS_HERE: usize = 512;

/// Why a run of tx ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There is nothing to do, or another event will wake tx.
    Waits,
    /// The budget is used up; the caller queues the worker.
    Again,
}

/// A request that cannot be sent. It fails with this status, and the QP with it.
pub(crate) struct Failed {
    pub(crate) seq: Option<Seq>,
    pub(crate) status: Status,
    /// The Terminate for the peer, if the peer had a part in the failure.
    pub(crate) terminate: Option<Terminate>,
}

impl Failed {
    fn new(seq: Option<Seq>, status: Status) -> Self {
        Self {
            seq,
            status,
            terminate: None,
        }
    }

    fn memory(seq: Option<Seq>, e: MemError) -> Self {
        Self::new(seq, e.into())
    }
}

/// The agreed parameters of a connection's outbound half.
pub(crate) struct TxConfig {
    pub(crate) crc: bool,
    pub(crate) markers: bool,
    /// FPDUs may span TCP segments: both ends are software and have agreed to that.
    pub(crate) large_fpdu: bool,
    /// The RTR that is to be sent before the next message: an initiator's first message, or its
    /// repetition.
    pub(crate) rtr: Option<iwarp::mpa::Rtr>,
}

/// The outbound half of a QP's connection. Guarded by the lock `Qp::tx`.
pub(crate) struct Tx {
    conn: Arc<Conn>,
    cfg: TxConfig,
    framer: Framer,
    batch: TxBatch,
    /// Messages whose end is in the batch under way.
    messages: u64,
    current: Current,
    /// The request that was taken last. It is large, so it stays in place.
    wr: SendWr,
    /// The scatter/gather elements that `wr` has no room for. Its capacity suffices for the longest
    /// list.
    rest: KVec<Sge>,
    /// The region that the last RDMA Read of this end may write to.
    sink: Option<ResolvedMr>,
    /// The request in `wr`, if it waits for RDMA Reads before it.
    blocked: Option<Seq>,
    /// The queue may have more requests than tx has looked at.
    more: bool,
    /// Requests before this one are in the batch or sent, and have yet to complete. `None`: no such
    /// request.
    built: Option<Seq>,
    send_msn: iwarp::Msn,
    read_msn: iwarp::Msn,
    response_turn: bool,
    terminated: bool,
    /// Tx has told the connection that it may send its FIN.
    fin: bool,
}

impl Tx {
    /// Makes the outbound half, before the first FPDU, for a queue whose requests have up to `sges`
    /// elements. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(conn: Arc<Conn>, cfg: TxConfig, sges: u32) -> Result<Self> {
        Ok(Self {
            batch: TxBatch::new(Some(conn.tx_pages().clone())),
            conn,
            framer: Framer::new(cfg.crc, cfg.markers),
            cfg,
            messages: 0,
            current: Current::none(sges)?,
            wr: SendWr::new(0, SendOp::Send, 0, 0),
            rest: KVec::with_capacity(sges_beyond(sges), GFP_KERNEL)?,
            sink: None,
            blocked: None,
            more: false,
            built: None,
            send_msn: iwarp::Msn::FIRST,
            read_msn: iwarp::Msn::FIRST,
            response_turn: true,
            terminated: false,
            fin: false,
        })
    }

    /// Has `rtr` sent before the next message. Context: any.
    pub(crate) fn owe_rtr(&mut self, rtr: iwarp::mpa::Rtr) {
        self.cfg.rtr = Some(rtr);
    }

    /// Sends until one of these: nothing is left to send, the socket has no room, `left` bytes were
    /// sent, or another thread waits for the lock. `left` is lowered by the bytes sent. Context:
    /// sleeping.
    pub(crate) fn run(&mut self, qp: &Arc<Qp>, left: &mut usize) -> Ended {
        loop {
            match self.flush(qp) {
                Some(n) => *left = left.saturating_sub(n),
                None => return Ended::Waits,
            }
            if *left == 0 || qp.tx.is_contended() {
                return Ended::Again;
            }
            match qp.state() {
                State::Rts | State::Closing => {}
                State::Terminate => {
                    self.terminate(qp);
                    return Ended::Waits;
                }
                State::Idle | State::Error => return Ended::Waits,
            }
            if self.fin {
                // The FIN is sent, or will be at once. Requests that came too late are flushed when
                // the connection is gone.
                return Ended::Waits;
            }
            // Read before tx looks at the queue: requests that the peer's last message has let
            // start are then still found and sent.
            let peer_done = qp.peer_done();
            if !qp.may_send() {
                // This end may send no FPDU yet, but a FIN.
                self.close_if_drained(qp, peer_done);
                return Ended::Waits;
            }
            match self.fill(qp, usize::MAX, Self::next_message) {
                // A consumer that posts another request while these are sent wakes tx.
                Ok(Filled::Whole) => {
                    if self.flush(qp).is_some() {
                        self.complete(qp);
                        self.close_if_drained(qp, peer_done);
                    }
                    return Ended::Waits;
                }
                Ok(Filled::Part) if self.batch.is_empty() => {
                    // None of so many requests needs a message. Completing them frees their slots.
                    let room = self.built.is_some();
                    self.complete(qp);
                    if room {
                        return Ended::Again;
                    }
                    // The peer may have sent its FIN instead of the response that they wait for.
                    self.close_if_drained(qp, peer_done);
                    return Ended::Waits;
                }
                Ok(Filled::Part) => {}
                Err(failed) => {
                    // Requests before the failed one are sent first, then a Terminate.
                    if self.batch.is_empty() {
                        self.complete(qp);
                    }
                    qp.local_fault(failed);
                }
            }
        }
    }

    /// Hands the batch to TCP and returns how many bytes TCP has taken; `None` while TCP does not
    /// take all.
    #[inline]
    fn flush(&mut self, qp: &Arc<Qp>) -> Option<usize> {
        self.flush_by(qp, |tx| tx.conn.socket().send_batch(&mut tx.batch))
    }

    #[inline]
    fn flush_by(
        &mut self,
        qp: &Arc<Qp>,
        mut send: impl FnMut(&mut Self) -> Result<Sent>,
    ) -> Option<usize> {
        let counters = &qp.dev.counters;
        let mut total = 0;
        while !self.batch.is_empty() {
            match send(self) {
                Ok(Sent::Bytes(n)) => {
                    self.batch.consume(n);
                    total += n;
                    counters.tx_sends.add(1);
                    counters.tx_bytes.add(n as u64);
                }
                Ok(Sent::WouldBlock) => {
                    counters.tx_stalls.add(1);
                    if self.conn.socket().writable() {
                        qp.await_memory();
                    }
                    return None;
                }
                Err(_) => {
                    self.conn.close(Close::Abort);
                    return None;
                }
            }
        }
        if total != 0 {
            counters
                .tx_messages
                .add(core::mem::take(&mut self.messages));
            self.complete(qp);
        }
        Some(total)
    }

    /// Answers the peer's short Reads, if tx is at rest. Context: callback, the socket is locked.
    pub(crate) fn answer(&mut self, qp: &Arc<Qp>, sk: &mut LockedSock) -> Ended {
        // A batch waits for room, a message or the RTR goes first, segments are too small, or the
        // QP may not send (yet, or any more): the worker answers, in turn.
        let busy = !self.batch.is_empty() || self.current.active || self.cfg.rtr.is_some();
        let mss = sk.mss() as usize;
        if busy || mss < LEAST_MSS_HERE || qp.state() != State::Rts || !qp.may_send() {
            return Ended::Again;
        }
        let most = SEGMENTS_HERE.saturating_mul(mss);
        let mut left = BUDGET_HERE;
        self.batch.set_atomic(true);
        loop {
            let filled = self.fill(qp, left.min(most), Self::next_short_response);
            let sent = self.flush_by(qp, |tx| sk.send_batch(&mut tx.batch));
            match (filled, sent) {
                // A TCP segment, or the batch, was full, and there is budget left.
                (Ok(Filled::Part), Some(n)) if n != 0 && n < left => left -= n,
                (Ok(_), _) => break,
                (Err(failed), _) => {
                    // The worker sends the Terminate, after the answers.
                    qp.local_fault(failed);
                    break;
                }
            }
        }
        self.batch.set_atomic(false);
        // The worker sends the rest in turn; it may also sleep for memory.
        if !self.batch.is_empty() || self.current.active || !qp.inbound.is_empty() {
            return Ended::Again;
        }
        Ended::Waits
    }

    /// Completes the requests whose last byte TCP has taken.
    fn complete(&mut self, qp: &Arc<Qp>) {
        if let Some(seq) = self.built.take() {
            let notify = qp.sq.sent(seq, qp.send_out());
            qp.after_send(notify);
        }
    }

    /// In an orderly close, lets the connection send its FIN when nothing is left to send. Reads
    /// that wait for their responses delay the FIN only while the peer can still answer.
    #[inline]
    fn close_if_drained(&mut self, qp: &Qp, peer_done: bool) {
        if qp.state() == State::Closing && (peer_done || qp.sq.is_idle()) {
            self.fin = true;
            self.conn.tx_drained();
        }
    }

    /// Sends a Terminate, if one is due, and then has the connection closed.
    fn terminate(&mut self, qp: &Arc<Qp>) {
        if !core::mem::replace(&mut self.terminated, true) {
            self.current.end();
            self.blocked = None;
            if let Some(t) = qp.take_terminate() {
                qp.dev.counters.tx_terminates.add(1);
                self.current.terminate(t);
                let built = self.append();
                self.current.end();
                // Sent at once. Otherwise TCP might hold it back until the FIN, which may come only
                // later.
                self.batch.set_last();
                if built.is_ok() && self.flush(qp).is_none() && !self.batch.is_empty() {
                    // The socket has no room, as the peer does not read. When it does, the worker
                    // sends the rest; if it never does, the connection's guard timer ends the
                    // connection.
                    return;
                }
            }
        }
        if self.batch.is_empty() {
            self.conn.close(Close::Flush);
        }
    }

    /// Ends transmission. If TCP has taken only a part of a batch, the connection gets the rest:
    /// without it the stream would end in the middle of an FPDU. Context: sleeping.
    pub(crate) fn leave(&mut self) {
        if self.batch.is_begun() {
            let rest = core::mem::take(&mut self.batch);
            self.conn.take_over(rest);
        }
    }
}

impl WakeTx {
    /// Whether either has to wake tx.
    pub(crate) fn or(self, o: WakeTx) -> WakeTx {
        WakeTx(self.0 | o.0)
    }
}
