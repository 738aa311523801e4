// SPDX-License-Identifier: GPL-2.0

//! The send queue: requests on their way from the consumer to tx, and in order to completion.
//!
//! A request occupies a slot from the moment that the driver takes it (for a kernel consumer: at
//! post; for a process: when tx takes the element out of the mapped ring) until its completion is
//! published. Slots complete strictly in order, so a Send behind an RDMA Read waits for the Read
//! (RFC 5040 section 5.5, and what consumers rely on to reclaim queue space), although tx sent it
//! long before.
//!
//! ```text
//!        head             sent            next          tail
//!   ------|----------------|---------------|-------------|------
//!          reads pending,    being sent      posted, not
//!          sent behind them  by tx           yet taken by tx (kernel consumers only)
//! ```
//!
//! Tx is the only one to call [`SendQueue::pull`], [`SendQueue::start_read`] and
//! [`SendQueue::sent`]; rx is the only one to call [`SendQueue::read_head`] and
//! [`SendQueue::finish_read`]. One lock serialises the short bookkeeping; completions are published
//! under it, so that two actors cannot reorder them. Lock order: send queue, then CQ.

use super::reads::OutstandingRead;
use crate::{
    abi::Sqe,
    cq::{Cq, Notify, Tag},
    fifo::Fifo,
    ring::WorkRing,
    wr::{Completion, SendOp, SendWr, Status},
};
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use rdma::lock::{new_spinlock_irq, SpinLockIrq};

/// Position of a request in the stream of all requests of the queue; wraps.
pub(crate) type Seq = u32;

/// What tx gets when it asks for the next request.
pub(crate) enum Pull {
    /// The place given holds a request to process.
    Wr(Seq),
    /// A request that is refused: it, and with it the QP, fails with this status.
    Bad(Seq, Status),
    /// Nothing is posted.
    Empty,
    /// Everything taken so far waits for RDMA Reads; a completed Read wakes tx.
    Full,
}

/// Asks the caller to wake tx: it waits for what just happened.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WakeTx(pub(crate) bool);

#[derive(Clone, Copy)]
struct Slot {
    id: u64,
    opcode: u8,
    signalled: bool,
    /// For an RDMA Read: the data has arrived.
    read_pending: bool,
    bytes: u32,
}

struct State {
    slots: KVVec<Slot>,
    /// Requests that a kernel consumer posted and tx has not taken: `next..tail`.
    posted: KVVec<Option<SendWr>>,
    head: Seq,
    sent: Seq,
    next: Seq,
    tail: Seq,
    reads: Fifo<OutstandingRead>,
    /// RDMA Reads that the consumer may have under way; 0: none at all.
    ord: u32,
    /// An orderly close has begun: tx takes no request from this one on.
    end: Option<Seq>,
    /// Tx stopped for a fence, a full read queue or a full slot ring.
    tx_waits: bool,
    /// The QP is in ERROR: requests complete as flushed as soon as they are posted.
    flushed: bool,
}

/// A QP's send queue.
#[pin_data]
pub(crate) struct SendQueue {
    size: u32,
    max_sge: u32,
    signal_all: bool,
    /// The ring that a process has mapped; a kernel consumer has none.
    ring: Option<WorkRing<Sqe>>,
    /// The place in the ring that tx takes next, for who does not hold the lock.
    place: AtomicU32,
    #[pin]
    state: SpinLockIrq<State>,
}

impl SendQueue {
    /// A queue of `size` (a power of two) requests; `ring` has the same size.
    ///
    /// Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        size: u32,
        max_sge: u32,
        signal_all: bool,
        ring: Option<WorkRing<Sqe>>,
    ) -> Result<impl PinInit<Self>> {
        debug_assert!(size.is_power_of_two());
        let free = Slot {
            id: 0,
            opcode: 0,
            signalled: false,
            read_pending: false,
            bytes: 0,
        };
        let slots = KVVec::from_elem(free, size as usize, GFP_KERNEL)?;
        let mut posted = KVVec::new();
        if ring.is_none() {
            posted = KVVec::with_capacity(size as usize, GFP_KERNEL)?;
            for _ in 0..size {
                posted.push(None, GFP_KERNEL)?;
            }
        }
        let state = State {
            slots,
            posted,
            head: 0,
            sent: 0,
            next: 0,
            tail: 0,
            reads: Fifo::empty(),
            ord: 0,
            end: None,
            tx_waits: false,
            flushed: false,
        };
        Ok(pin_init!(Self {
            size,
            max_sge,
            signal_all,
            ring,
            place: AtomicU32::new(0),
            state <- new_spinlock_irq!(state, "rsiw_sq"),
        }))
    }

    /// Requests that the queue holds.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Whether a process posts through a mapping.
    pub(crate) fn is_mapped(&self) -> bool {
        self.ring.is_some()
    }

    /// Scatter/gather elements that a request may have.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Whether every request is signalled, whatever its flags say.
    pub(crate) fn signal_all(&self) -> bool {
        self.signal_all
    }

    /// Makes room for `ord` RDMA Reads at a time, and for the one of connection setup, which no
    /// consumer asks for. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn set_ord(&self, ord: u32) -> Result {
        let mut reads = Fifo::with_capacity(ord.max(1))?;
        let mut st = self.state.lock();
        st.ord = ord;
        // The old one (empty: the QP was not connected) is freed outside the lock.
        core::mem::swap(&mut st.reads, &mut reads);
        drop(st);
        Ok(())
    }

    /// Whether the connection was set up for RDMA Reads from this end.
    pub(crate) fn may_read(&self) -> bool {
        self.state.lock().ord != 0
    }

    /// A kernel consumer posts `wr`. Context: any.
    ///
    /// In ERROR the request is accepted and completes as flushed, behind all earlier ones, which
    /// is what draining a queue relies on.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full.
    pub(crate) fn post(&self, mut wr: SendWr, out: Out<'_>) -> Result<Notify> {
        wr.signalled |= self.signal_all;
        let st = &mut *self.state.lock();
        if st.flushed {
            return Ok(out.flush(wr.id(), wr.op.code()));
        }
        if st.tail.wrapping_sub(st.head) >= self.size {
            return Err(ENOMEM);
        }
        let i = self.index(st.tail);
        st.slots[i] = Slot::new(&wr);
        st.posted[i] = Some(wr);
        st.tail = st.tail.wrapping_add(1);
        Ok(Notify::default())
    }

    /// Takes the next request for tx, to `wr`. Context: tx.
    pub(crate) fn pull(&self, wr: &mut SendWr) -> Pull {
        if let Some(ring) = &self.ring {
            // A look without the lock: most often there is nothing.
            if !ring.is_valid(self.place.load(Ordering::Relaxed)) {
                return Pull::Empty;
            }
        }
        let st = &mut *self.state.lock();
        if st.flushed || st.end == Some(st.next) {
            return Pull::Empty;
        }
        let Some(ring) = &self.ring else {
            if st.next == st.tail {
                return Pull::Empty;
            }
            let seq = st.next;
            let i = self.index(seq);
            let Some(posted) = st.posted[i].take() else {
                return Pull::Empty;
            };
            *wr = posted;
            st.next = seq.wrapping_add(1);
            return Pull::Wr(seq);
        };
        if st.tail.wrapping_sub(st.head) >= self.size {
            // The process may have refilled elements that tx took long ago; they stay VALID
            // until slots are free again.
            st.tx_waits = ring.is_valid(st.tail);
            return if st.tx_waits { Pull::Full } else { Pull::Empty };
        }
        if !ring.take_into(st.tail, wr.element()) {
            return Pull::Empty;
        }
        let seq = st.tail;
        st.tail = seq.wrapping_add(1);
        st.next = st.tail;
        self.place.store(st.tail, Ordering::Relaxed);
        let i = self.index(seq);
        match wr.check(self.max_sge, self.signal_all) {
            Ok(()) => {
                st.slots[i] = Slot::new(wr);
                Pull::Wr(seq)
            }
            Err(status) => {
                st.slots[i] = Slot {
                    id: wr.id(),
                    opcode: wr.opcode().min(crate::abi::opcode::REG_MR),
                    signalled: true,
                    read_pending: false,
                    bytes: 0,
                };
                Pull::Bad(seq, status)
            }
        }
    }

    /// Whether an RDMA Read may start, or a fenced request pass; if not, tx will be woken.
    /// Context: tx.
    pub(crate) fn may_start(&self, wr: &SendWr) -> bool {
        if !wr.fence && !wr.op.is_read() {
            return true;
        }
        let st = &mut *self.state.lock();
        let ok = !(wr.fence && !st.reads.is_empty() || wr.op.is_read() && st.reads.is_full());
        if !ok {
            st.tx_waits = true;
        }
        ok
    }

    /// Records a Read that tx is about to send. Context: tx, after [`Self::may_start`].
    ///
    /// # Errors
    ///
    /// Gives the Read back if the queue of outstanding Reads is full.
    pub(crate) fn start_read(&self, read: OutstandingRead) -> Result<(), OutstandingRead> {
        let st = &mut *self.state.lock();
        if let Some(seq) = read.seq {
            let i = self.index(seq);
            st.slots[i].read_pending = true;
        }
        st.reads.push(read)
    }

    /// Tx has handed all requests before `seq` to TCP: they complete as far as no Read is in the
    /// way. Context: tx.
    pub(crate) fn sent(&self, seq: Seq, out: Out<'_>) -> Notify {
        let st = &mut *self.state.lock();
        st.sent = seq;
        self.advance(st, out)
    }

    /// The Read whose response is due next. Context: rx.
    pub(crate) fn read_head(&self) -> Option<OutstandingRead> {
        self.state.lock().reads.front().cloned()
    }

    /// The response to the oldest Read has arrived in full. Context: rx.
    pub(crate) fn finish_read(&self, out: Out<'_>) -> (Notify, WakeTx) {
        let (read, notify, wake) = self.take_read(out);
        // Outside of the lock, as it refers to a region.
        drop(read);
        (notify, wake)
    }

    fn take_read(&self, out: Out<'_>) -> (Option<OutstandingRead>, Notify, WakeTx) {
        let st = &mut *self.state.lock();
        let read = st.reads.pop();
        if let Some((seq, len)) = read.as_ref().and_then(|r| Some((r.seq?, r.len))) {
            let i = self.index(seq);
            st.slots[i].read_pending = false;
            st.slots[i].bytes = len;
        }
        let notify = self.advance(st, out);
        (read, notify, WakeTx(core::mem::take(&mut st.tx_waits)))
    }

    /// The request whose Read response is due next.
    pub(crate) fn oldest_read(&self) -> Option<Seq> {
        self.state.lock().reads.front()?.seq
    }

    /// An orderly close begins: what is posted is still sent; what is posted from now on is not, and
    /// is flushed when the connection is gone (RFC 5041 section 6.2.1). Context: sleeping.
    pub(crate) fn end_here(&self) {
        let st = &mut *self.state.lock();
        if st.end.is_some() {
            return;
        }
        let mut end = st.tail;
        if let Some(ring) = &self.ring {
            // They may wait for slots, which earlier ones still have.
            for _ in 0..self.size {
                if !ring.is_valid(end) {
                    break;
                }
                end = end.wrapping_add(1);
            }
        }
        st.end = Some(end);
    }

    /// Whether nothing that is to be sent is posted, being sent or waiting for a response.
    pub(crate) fn is_idle(&self) -> bool {
        let st = &*self.state.lock();
        match st.end {
            Some(end) => st.head == end,
            None => st.head == st.tail && !self.ring.as_ref().is_some_and(|r| r.is_valid(st.tail)),
        }
    }

    /// Fails everything that is queued: the request `failed` with its own status, all others
    /// as flushed, in order. From now on requests complete
    /// as flushed at once. Context: sleeping, tx excluded by the caller.
    pub(crate) fn flush(&self, failed: Option<(Seq, Status)>, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        let mut spare: Fifo<OutstandingRead> = Fifo::empty();
        {
            let st = &mut *self.state.lock();
            st.flushed = true;
            notify |= self.advance(st, out);
            while st.head != st.tail {
                let i = self.index(st.head);
                let slot = st.slots[i];
                let status = match failed {
                    Some((seq, status)) if seq == st.head => status,
                    _ => Status::Flush,
                };
                notify |= out.complete(slot.completion(status));
                st.head = st.head.wrapping_add(1);
            }
            (st.sent, st.next) = (st.head, st.head);
            core::mem::swap(&mut st.reads, &mut spare);
        }
        self.drop_posted();
        notify | self.flush_ring(out)
    }

    /// In ERROR a process' doorbell flushes what it posted. Context: any.
    ///
    /// Bounded by the ring's size: a process that keeps on refilling it rings again.
    pub(crate) fn flush_ring(&self, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        let Some(ring) = &self.ring else {
            return notify;
        };
        let st = &mut *self.state.lock();
        if !st.flushed {
            return notify;
        }
        for _ in 0..self.size {
            let Some(sqe) = ring.take(st.tail) else { break };
            st.tail = st.tail.wrapping_add(1);
            (st.head, st.sent, st.next) = (st.tail, st.tail, st.tail);
            notify |= out.flush(sqe.id, sqe.opcode.min(crate::abi::opcode::REG_MR));
        }
        notify
    }

    /// Drops requests that tx never took, with the references that they hold, outside the lock.
    fn drop_posted(&self) {
        for i in 0..self.size as usize {
            let wr = match self.state.lock().posted.get_mut(i) {
                Some(wr) => wr.take(),
                None => return,
            };
            drop(wr);
        }
    }

    fn advance(&self, st: &mut State, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        while st.head != st.sent {
            let slot = st.slots[self.index(st.head)];
            if slot.read_pending {
                break;
            }
            if slot.signalled {
                notify |= out.complete(slot.completion(Status::Success));
            }
            st.head = st.head.wrapping_add(1);
        }
        notify
    }

    fn index(&self, seq: Seq) -> usize {
        (seq & (self.size - 1)) as usize
    }
}

impl Slot {
    fn new(wr: &SendWr) -> Self {
        Self {
            id: wr.id(),
            opcode: wr.op.code(),
            signalled: wr.signalled,
            read_pending: false,
            bytes: if wr.op == SendOp::RegMr { 0 } else { wr.len },
        }
    }

    fn completion(&self, status: Status) -> Completion {
        Completion {
            id: self.id,
            opcode: self.opcode,
            status,
            bytes: if status == Status::Success {
                self.bytes
            } else {
                0
            },
            invalidated: None,
            solicited: false,
        }
    }
}

/// Where completions of a queue go: its CQ, and the QP that they name.
#[derive(Clone, Copy)]
pub(crate) struct Out<'a> {
    pub(crate) cq: &'a Cq,
    pub(crate) tag: &'a Tag,
}

impl Out<'_> {
    /// Publishes one completion.
    pub(crate) fn complete(&self, c: Completion) -> Notify {
        self.cq.push(self.tag, &c)
    }

    /// Publishes a flushed request's completion.
    pub(crate) fn flush(&self, id: u64, opcode: u8) -> Notify {
        self.complete(Completion {
            id,
            opcode,
            status: Status::Flush,
            bytes: 0,
            invalidated: None,
            solicited: false,
        })
    }
}
