// SPDX-License-Identifier: GPL-2.0

//! The send queue: requests on their way from the consumer to tx, and from there to completion, in
//! order.
//!
//! A request occupies a slot until its completion is published. A kernel consumer's request gets
//! the slot when it is posted, a process' request when tx takes the element out of the mapped ring.
//!
//! Slots complete strictly in order. So a Send that follows an RDMA Read completes after the Read,
//! although tx has sent it long before: RFC 5040 section 5.5 demands it, and consumers rely on it
//! to reclaim queue space.
//!
//! ```text
//!        head             sent            next          tail
//!   ------|----------------|---------------|-------------|------
//!          reads pending,    being sent      posted, not
//!          sent behind them  by tx           yet taken by tx (kernel consumers only)
//! ```
//!
//! Only tx calls [`SendQueue::pull`], [`SendQueue::start_read`] and [`SendQueue::sent`]; only rx
//! calls [`SendQueue::take_read_head`] and [`SendQueue::complete_oldest_read`]. One lock serialises
//! their bookkeeping, which is short. Completions are published under it, so that two actors cannot
//! reorder them. Lock order: send queue, then CQ.
//!
//! How many RDMA Reads wait for their responses at a time, [`ord`] tells. When an RDMA Write
//! completes of a queue pair whose program expects InfiniBand, [`placed`] tells.
//!
//! The queue may end at a position: tx takes no request from there on, because of an orderly close
//! ([`SendQueue::end_here`]), or while the program holds the queue ([`sqd`]).
//!
//! Tx takes elements out of a process' ring, and fills their slots, without the lock. This is safe
//! because no other actor changes a slot from `sent` on, with one exception: rx changes that of an
//! RDMA Read, under the lock, and only after tx has recorded the Read under the lock. (When the
//! peer has refused a Write or a Send, rx looks through the slots for it, and may find one that tx
//! has just filled or is filling.) Posts of a kernel consumer fill their slots under the lock.

mod flush;
mod ord;
mod placed;
mod posted;
mod slot;
mod sqd;

use super::{reads::OutstandingRead, Seq, BATCH};
use crate::{
    abi::{Operations, Sqe},
    cq::{Notify, Out},
    fifo::Fifo,
    ring::WorkRing,
    wr::{SendWr, Status},
};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::prelude::*;
use kext::lock::{new_spinlock_irq, SpinLockIrq};
use placed::Placed;
use posted::Posted;
use rdma::{Consumer, Sge};
use slot::{Slot, SlotCell};

pub(crate) use ord::ReadsBefore;

/// The answer to tx when it asks for the next request.
pub(crate) enum Pull {
    /// The request at this position is to be processed.
    Wr(Seq),
    /// The request at this position is invalid. It fails with this status, and the QP with it.
    Bad(Seq, Status),
    /// Nothing is posted.
    Empty,
    /// No slot is free: requests that tx took earlier wait for answers of the peer. An answer wakes
    /// tx.
    Full,
}

/// Whether the caller has to wake tx, which waits for the event that has just happened.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WakeTx(pub(crate) bool);

impl WakeTx {
    /// Whether either has to wake tx.
    pub(crate) fn or(self, o: WakeTx) -> WakeTx {
        WakeTx(self.0 | o.0)
    }
}

struct State {
    /// Requests that a kernel consumer has posted and tx has not taken: `next..tail`.
    posted: Posted,
    sent: Seq,
    next: Seq,
    reads: Fifo<OutstandingRead>,
    /// RDMA Reads that the connection was set up for.
    agreed_ord: u32,
    placed: Placed,
    /// Tx has stopped for a fence, for lack of room in `reads`, for lack of a slot, or until the
    /// queue has drained.
    tx_waits: bool,
    /// The program wants to be told when what it holds has drained.
    tell_drained: bool,
    /// The QP is in ERROR: requests complete as flushed as soon as they are posted.
    flushed: bool,
}

/// A QP's send queue.
#[pin_data]
pub(crate) struct SendQueue {
    size: u32,
    max_sge: u32,
    signal_all: bool,
    /// The operations that the consumer knows.
    known: Operations,
    /// The ring that a process has mapped; a kernel consumer has none.
    ring: Option<WorkRing<Sqe>>,
    /// The slots; their number is a power of two and at least `size`.
    slots: KVVec<SlotCell>,
    /// The first request that has not completed. Changed under the lock; the store is a release, so
    /// that tx may reuse the slots before it.
    head: AtomicU32,
    /// The position of the next request to get a slot. Of a kernel consumer's queue it is changed
    /// under the lock; of a process' queue by tx, or, once tx has stopped, by a flush.
    tail: AtomicU32,
    /// RDMA Reads that the consumer may have outstanding; with 0 all of its Reads are refused.
    /// Changed under the lock.
    ord: AtomicU32,
    /// Where the queue ends: tx takes no request from this position on. Changed while tx is locked
    /// out; [`NO_END`], if nobody has ended it.
    end: AtomicU64,
    #[pin]
    state: SpinLockIrq<State>,
}

/// The value of `end` of a queue that goes on; no position has it.
const NO_END: u64 = u64::MAX;

impl SendQueue {
    /// Makes a queue of `size` requests; `ring` has the same size, a power of two.
    ///
    /// Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        size: u32,
        max_sge: u32,
        signal_all: bool,
        known: Operations,
        ring: Option<WorkRing<Sqe>>,
    ) -> Result<impl PinInit<Self>> {
        let flags = Consumer::of(&ring).flags();
        let count = size.checked_next_power_of_two().ok_or(ENOMEM)?;
        let mut slots = KVVec::with_capacity(count as usize, flags)?;
        for _ in 0..count {
            slots.push(SlotCell::free(), flags)?;
        }
        let posted = match &ring {
            Some(_) => Posted::NONE,
            None => Posted::new(size, max_sge)?,
        };
        let state = State {
            posted,
            sent: 0,
            next: 0,
            reads: Fifo::empty(),
            agreed_ord: 0,
            placed: Placed::nothing(false),
            tx_waits: false,
            tell_drained: false,
            flushed: false,
        };
        Ok(pin_init!(Self {
            size,
            max_sge,
            signal_all,
            known,
            ring,
            slots,
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            ord: AtomicU32::new(0),
            end: AtomicU64::new(NO_END),
            state <- new_spinlock_irq!(state, "rsiw_sq"),
        }))
    }

    /// The number of requests that the queue holds.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Whether a process posts through a mapping.
    pub(crate) fn is_mapped(&self) -> bool {
        self.ring.is_some()
    }

    /// The number of scatter/gather elements that a request may have.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Whether every request is signalled, whatever its flags say.
    pub(crate) fn signal_all(&self) -> bool {
        self.signal_all
    }

    /// A status of InfiniBand's that the consumer may not know, as siw's library does not: the
    /// nearest that it knows.
    pub(crate) fn known_status(&self, status: Status) -> Status {
        if self.is_extended() {
            status
        } else {
            Status::General
        }
    }

    /// Whether the consumer knows the operations of RFC 7306.
    pub(crate) fn is_extended(&self) -> bool {
        self.known != Operations::Siw
    }

    /// The code that a completion of a request with `code` may have.
    fn known_code(&self, code: u8) -> u8 {
        self.known.known(code)
    }

    /// A kernel consumer posts `wr`; `more` has the scatter/gather elements that `wr` has no room
    /// for. Context: any.
    ///
    /// In ERROR the request is accepted, and completes as flushed after all earlier ones. Consumers
    /// that drain a queue rely on this.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full.
    pub(crate) fn post(&self, mut wr: SendWr, more: &[Sge], out: Out<'_>) -> Result<Notify> {
        wr.signalled |= self.signal_all;
        let st = &mut *self.state.lock();
        if st.flushed {
            return Ok(out.flush(wr.id(), wr.op.code()));
        }
        let tail = self.tail();
        if self.is_full(tail) {
            return Err(ENOMEM);
        }
        self.slot(tail).set(Slot::new(&wr));
        st.posted.put(wr, more);
        self.set_tail(tail.wrapping_add(1));
        Ok(Notify::default())
    }

    //= 5040-5.1-4: The Data Source RDMAP layer MUST issue RDMA Write Messages to
    //= 5040-5.2.1-8: The Local Peer MUST pass to the DDP layer
    //= 5040-5.3-6: The Local Peer MUST issue Send Message Type Messages
    //= 5040-5.5-4: The RDMAP layer MUST submit RDMA Messages to the
    //= 5041-5.3-2: MUST transmit DDP Messages in the order they were
    /// Moves the next request to `wr`, for tx. Scatter/gather elements that have no room in `wr` go
    /// to `rest`, whose capacity suffices for them. Context: tx.
    pub(crate) fn pull(&self, wr: &mut SendWr, rest: &mut KVec<Sge>) -> Pull {
        let Some(ring) = &self.ring else {
            return self.pull_posted(wr, rest);
        };
        let seq = self.tail();
        // Most often there is no request.
        if !ring.is_valid(seq) || self.ends_at(seq) {
            return Pull::Empty;
        }
        if self.is_full(seq) && self.wait_for_slot(seq) {
            // The process may already have refilled elements that tx took before. They stay VALID
            // until slots are free again.
            return Pull::Full;
        }
        ring.take_valid(seq, wr.element());
        self.set_tail(seq.wrapping_add(1));
        match wr.check(self.max_sge, self.signal_all, self.known) {
            Ok(()) => {
                self.slot(seq).set(Slot::new(wr));
                Pull::Wr(seq)
            }
            Err(status) => self.refuse(seq, wr, status),
        }
    }

    /// Keeps of an invalid request what its completion tells.
    #[cold]
    fn refuse(&self, seq: Seq, wr: &SendWr, status: Status) -> Pull {
        self.slot(seq).set(Slot {
            id: wr.id(),
            opcode: self.known_code(wr.opcode()),
            signalled: true,
            read_pending: false,
            unplaced: false,
            behind_writes: false,
            msn: None,
            bytes: 0,
        });
        Pull::Bad(seq, status)
    }

    /// As [`Self::pull`], for a kernel consumer's queue.
    #[inline(never)]
    fn pull_posted(&self, wr: &mut SendWr, rest: &mut KVec<Sge>) -> Pull {
        let st = &mut *self.state.lock();
        let seq = st.next;
        if st.flushed || seq == self.tail() || self.ends_at(seq) {
            return Pull::Empty;
        }
        if !st.posted.take(wr, rest) {
            return Pull::Empty;
        }
        st.next = seq.wrapping_add(1);
        Pull::Wr(seq)
    }

    /// Has tx woken when a slot becomes free; returns false if one is free now.
    #[cold]
    fn wait_for_slot(&self, seq: Seq) -> bool {
        let st = &mut *self.state.lock();
        let full = self.is_full(seq);
        st.tx_waits |= full;
        full
    }

    //= 5040-5.5-5
    /// TCP has taken all requests before `seq`. They complete, up to the first that waits for an
    /// answer. Context: tx.
    #[inline]
    pub(crate) fn sent(&self, seq: Seq, out: Out<'_>) -> Notify {
        let (notify, all) = {
            let st = &mut *self.state.lock();
            st.sent = seq;
            self.advance(st, out)
        };
        self.advance_rest(notify, all, out)
    }

    /// The oldest request that has not completed, or the next one. Context: any.
    pub(crate) fn oldest(&self) -> Seq {
        self.head.load(Ordering::Relaxed)
    }

    /// An orderly close begins. Requests that are posted now are still sent. Requests that are
    /// posted later are not, and are flushed when the connection is gone (RFC 5041 section 6.2.1).
    /// So are those that the program holds. Context: sleeping; the caller has locked tx out.
    pub(crate) fn end_here(&self) {
        if self.has_end() {
            return;
        }
        let Some(ring) = &self.ring else {
            let _st = self.state.lock();
            self.end.store(self.tail().into(), Ordering::Relaxed);
            return;
        };
        let mut end = self.tail();
        // Elements that are VALID are posted, even if tx could not take them for lack of slots.
        for _ in 0..self.size {
            if !ring.is_valid(end) {
                break;
            }
            end = end.wrapping_add(1);
        }
        self.end.store(end.into(), Ordering::Relaxed);
    }

    /// Whether no request is left: none that tx has yet to send, and none that waits for a
    /// response.
    pub(crate) fn is_idle(&self) -> bool {
        let _st = self.state.lock();
        self.is_done_at(self.head.load(Ordering::Relaxed))
    }

    /// Whether a request is posted that TCP has not taken. Those that the program holds do not
    /// count. Context: any.
    pub(crate) fn has_unsent(&self) -> bool {
        let st = self.state.lock();
        !self.is_done_at(st.sent)
    }

    /// Whether there is no request from `seq` on, but for those that the program holds. Context:
    /// any, `state` locked.
    fn is_done_at(&self, seq: Seq) -> bool {
        if self.has_end() {
            return self.ends_at(seq);
        }
        let tail = self.tail();
        seq == tail && !self.ring.as_ref().is_some_and(|r| r.is_valid(tail))
    }

    //= 5040-5.5-6: RDMA Operations MUST be Completed at the Local Peer
    //= 5040-5.5-9
    /// Completes requests that are done, at most [`BATCH`] of them; also returns whether these were
    /// all.
    fn advance(&self, st: &mut State, out: Out<'_>) -> (Notify, bool) {
        let mut notify = Notify::default();
        let mut head = self.head.load(Ordering::Relaxed);
        st.placed.passed(head);
        let end = head.wrapping_add(BATCH);
        let mut all = true;
        while head != st.sent {
            let slot = self.slot(head).get();
            if slot.read_pending || (slot.unplaced && !st.placed.is_before(head)) {
                break;
            }
            if head == end {
                all = false;
                break;
            }
            if slot.signalled {
                notify |= out.complete(slot.completion(Status::Success));
            }
            head = head.wrapping_add(1);
        }
        // Release: tx may reuse the slots.
        self.head.store(head, Ordering::Release);
        (notify, all)
    }

    /// Goes on after [`Self::advance`] if that did not complete all: takes the lock once for each
    /// batch. Another actor may do the same meanwhile; each goes on where the last holder of the
    /// lock stopped.
    fn advance_rest(&self, mut notify: Notify, mut all: bool, out: Out<'_>) -> Notify {
        while !all {
            let done;
            (done, all) = self.advance(&mut self.state.lock(), out);
            notify |= done;
        }
        notify
    }

    fn tail(&self) -> Seq {
        self.tail.load(Ordering::Relaxed)
    }

    fn set_tail(&self, tail: Seq) {
        self.tail.store(tail, Ordering::Relaxed);
    }

    /// Whether there is no slot for the request at position `tail`.
    fn is_full(&self, tail: Seq) -> bool {
        tail.wrapping_sub(self.head.load(Ordering::Acquire)) >= self.size
    }

    /// Whether the queue has an end.
    #[inline]
    pub(crate) fn has_end(&self) -> bool {
        self.end.load(Ordering::Relaxed) != NO_END
    }

    /// Whether the queue ends at `seq`.
    fn ends_at(&self, seq: Seq) -> bool {
        self.end.load(Ordering::Relaxed) == u64::from(seq)
    }

    fn slot(&self, seq: Seq) -> &SlotCell {
        &self.slots[self.index(seq)]
    }

    fn index(&self, seq: Seq) -> usize {
        seq as usize & (self.slots.len() - 1)
    }
}
