// SPDX-License-Identifier: GPL-2.0

//! Transmit: requests and Read responses become FPDUs, and FPDUs become batches.
//!
//! A batch is what one call hands to TCP: FPDUs back to back, up to 64 KiB, assembled in pages that
//! TCP then owns (a short one is copied). All but the last FPDU of a segment's worth fill the
//! segment exactly, so that segmentation offload cuts between FPDUs and every TCP segment starts
//! with one (RFC 5044 section 5, "FPDU alignment"), as a hardware peer expects.
//!
//! The tx actor is whoever has locked the QP's `tx`: a process that rings the doorbell, the module's
//! worker, or the receive callback, which answers short Reads. An RDMA Write walks
//!
//! 1. `verbs` (doorbell, post) → [`sched`](crate::sched)
//! 2. → [`SendQueue::pull`](crate::qp::sq::SendQueue::pull): the next request, checked
//! 3. → [`Gather`]: keys to regions, once
//! 4. → `iwarp::Segmenter`, `iwarp::Framer`: headers, one copy of the payload, CRC in the same pass
//! 5. → one send.
//!
//! Requests complete when TCP has taken the batch that holds their last byte: the payload was
//! copied, so their buffers are free.

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

/// Bytes that the receive callback hands to TCP before the worker goes on: it keeps the CPU from what
/// it interrupted.
const BUDGET_HERE: usize = 16 << 10;

/// Segments that TCP may make of one batch in the receive callback: far fewer than make it process
/// its backlog in the middle of a send (`tcp_sendmsg_locked()`: 16), as it may cut smaller ones.
const SEGMENTS_HERE: usize = 8;

/// Below this MSS the options of a segment are a good part of it.
const LEAST_MSS_HERE: usize = 512;

/// Why a run of tx ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing to do, or something else will wake tx.
    Waits,
    /// The budget is used up: queue the worker.
    Again,
}

/// A request that cannot be sent; it fails with this status, and the QP with it.
pub(crate) struct Failed {
    pub(crate) seq: Option<Seq>,
    pub(crate) status: Status,
    /// What to tell the peer, if it has a part in it.
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

/// What the connection agreed on for the outbound half.
pub(crate) struct TxConfig {
    pub(crate) crc: bool,
    pub(crate) markers: bool,
    /// FPDUs may span TCP segments (both ends are software and agreed to it).
    pub(crate) large_fpdu: bool,
    /// The RTR that an initiator sends before anything else, or once more.
    pub(crate) rtr: Option<iwarp::mpa::Rtr>,
}

/// The outbound half of a QP's connection. Guarded by the lock `Qp::tx`.
pub(crate) struct Tx {
    conn: Arc<Conn>,
    cfg: TxConfig,
    framer: Framer,
    batch: TxBatch,
    /// Messages that begin in the batch under way.
    messages: u64,
    current: Current,
    /// The request that was taken last, in place: it is large.
    wr: SendWr,
    /// What of its list has no room there; for as many as there may be.
    rest: KVec<Sge>,
    /// What the last RDMA Read of this end might write to.
    sink: Option<ResolvedMr>,
    /// It waits for RDMA Reads before it.
    blocked: Option<Seq>,
    /// There may be more requests than were looked at.
    more: bool,
    /// All requests before this one are in the batch, or sent.
    built: Option<Seq>,
    send_msn: iwarp::Msn,
    read_msn: iwarp::Msn,
    response_turn: bool,
    terminated: bool,
    /// The connection was told that it may send its FIN.
    fin: bool,
}

impl Tx {
    /// Before the first FPDU of a queue whose requests have up to `sges` elements. Context: sleeping.
    /// Errors: `ENOMEM`.
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

    /// Has `rtr` sent in front of the next message. Context: any.
    pub(crate) fn owe_rtr(&mut self, rtr: iwarp::mpa::Rtr) {
        self.cfg.rtr = Some(rtr);
    }

    /// Sends until there is nothing to send, no room in the socket, `left` bytes were sent, of which
    /// the rest is told, or somebody waits for the lock. Context: sleeping.
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
                // The FIN is sent, or on its way: what came too late is flushed at the end.
                return Ended::Waits;
            }
            // Before a look at the queue: what the peer's last words made room for is sent, too.
            let peer_done = qp.peer_done();
            if !qp.may_send() {
                // No FPDU yet; but a FIN is none.
                self.close_if_drained(qp, peer_done);
                return Ended::Waits;
            }
            match self.fill(qp, usize::MAX, Self::next_message) {
                // Whoever posts another request while these are sent wakes tx.
                Ok(Filled::Whole) => {
                    if self.flush(qp).is_some() {
                        self.complete(qp);
                        self.close_if_drained(qp, peer_done);
                    }
                    return Ended::Waits;
                }
                Ok(Filled::Part) if self.batch.is_empty() => {
                    // Nothing to send among so many requests; completing them makes room.
                    let room = self.built.is_some();
                    self.complete(qp);
                    if room {
                        return Ended::Again;
                    }
                    // The peer may have sent its FIN instead of what they wait for.
                    self.close_if_drained(qp, peer_done);
                    return Ended::Waits;
                }
                Ok(Filled::Part) => {}
                Err(failed) => {
                    // What was built before goes out first, then a Terminate.
                    if self.batch.is_empty() {
                        self.complete(qp);
                    }
                    qp.local_fault(failed);
                }
            }
        }
    }

    /// Hands the batch to TCP; `None` while it does not take all of it.
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
        // Something waits for room, or to be the first, or the end is near: in turn.
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
                // A segment is full, or the batch.
                (Ok(Filled::Part), Some(n)) if n != 0 && n < left => left -= n,
                (Ok(_), _) => break,
                (Err(failed), _) => {
                    // The Terminate goes out behind the answers before.
                    qp.local_fault(failed);
                    break;
                }
            }
        }
        self.batch.set_atomic(false);
        // What is left takes its turn in the worker, which may sleep for memory, too.
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

    /// In an orderly close: lets the connection send its FIN when nothing is left to send. Reads that
    /// wait for their response hold it up only while the peer can still answer.
    #[inline]
    fn close_if_drained(&mut self, qp: &Qp, peer_done: bool) {
        if qp.state() == State::Closing && (peer_done || qp.sq.is_idle()) {
            self.fin = true;
            self.conn.tx_drained();
        }
    }

    /// Sends a Terminate, if one is due, and has the connection closed behind it.
    fn terminate(&mut self, qp: &Arc<Qp>) {
        if !core::mem::replace(&mut self.terminated, true) {
            self.current.end();
            self.blocked = None;
            if let Some(t) = qp.take_terminate() {
                qp.dev.counters.tx_terminates.add(1);
                self.current.terminate(t);
                let built = self.append();
                self.current.end();
                // Not together with the FIN, or only when that comes.
                self.batch.set_last();
                if built.is_ok() && self.flush(qp).is_none() && !self.batch.is_empty() {
                    // No room in the socket: the peer does not read. When it does, the worker
                    // comes back for the rest; otherwise the connection's guard timer ends it.
                    return;
                }
            }
        }
        if self.batch.is_empty() {
            self.conn.close(Close::Flush);
        }
    }

    /// The end of transmission. If TCP has taken a part of a batch only, the connection gets the
    /// rest: without it the stream would end in the middle of an FPDU. Context: sleeping.
    pub(crate) fn leave(&mut self) {
        if self.batch.is_begun() {
            let rest = core::mem::take(&mut self.batch);
            self.conn.take_over(rest);
        }
    }
}

impl WakeTx {
    /// Both.
    pub(crate) fn or(self, o: WakeTx) -> WakeTx {
        WakeTx(self.0 | o.0)
    }
}
