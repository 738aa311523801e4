// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads and atomic operations in both directions, which share their limits: those of this end
//! that wait for their responses, and those of the peer that wait for tx to answer them. IRD, the
//! limit of the peer's, is enforced here; ORD, that of this end's, where tx starts a request
//! (`sq/ord.rs`).

use super::Seq;
use crate::{fifo::Fifo, mem::ResolvedMr};
use core::sync::atomic::{AtomicU32, Ordering};
use iwarp::{
    rdmap::{AtomicRequest, ATOMIC_LEN},
    Msn, ReadRequest, Stag, Terminate,
};
use kernel::{alloc::Flags, prelude::*};
use kext::lock::{new_spinlock_irq, SpinLockIrq};
use rdma::LocalSge;

/// The longest Read of the peer, in bytes, that the receive callback answers. A longer one is left
/// to a worker: its copy would keep the CPU from whatever the callback has interrupted.
pub(crate) const SHORT_READ: u32 = 2048;

/// Reads of no bytes, beyond ORD and IRD, by which an end may ask at a time whether its Writes are
/// placed (`sq/placed.rs`). Both ends have to agree: it belongs to the version in the names of
/// queue pairs (`iwarp::conn::names`).
pub(crate) const CONFIRMING: u32 = 4;

/// A Read, or an atomic operation, that was sent and whose response has not arrived in full; at
/// most ORD at a time, or one, that of connection setup, if ORD is 0; and those that confirm.
#[derive(Clone)]
pub(crate) struct OutstandingRead {
    /// The request's position in the send queue; `None` for a Read that no consumer posted: that of
    /// connection setup (RFC 6581 section 5), and one that confirms Writes.
    pub(crate) seq: Option<Seq>,
    /// The response confirms that the peer has placed what was written before this position.
    pub(crate) confirms: Option<Seq>,
    /// The sink. The Read Request names its address and [`Self::stag`].
    pub(crate) sge: LocalSge,
    /// The sink's region; `None` for a Read of zero bytes that invalidates no STag, and once the
    /// response has begun to arrive: rx has it then.
    pub(crate) sink: Option<ResolvedMr>,
    /// Whether the sink's STag is invalidated when the data have arrived.
    pub(crate) invalidate: bool,
    /// The Request Identifier of an atomic operation.
    pub(crate) atomic: Option<u32>,
    /// The message sequence number of the request, once it is sent.
    pub(crate) msn: Msn,
    /// The peer carries the request out when it comes, before those that it answers in turn.
    pub(crate) at_once: bool,
}

impl OutstandingRead {
    /// A Read of no bytes that no consumer posted.
    pub(crate) fn empty(confirms: Option<Seq>) -> Self {
        Self {
            seq: None,
            confirms,
            sge: LocalSge::NONE,
            sink: None,
            invalidate: false,
            atomic: None,
            msn: Msn::FIRST,
            at_once: true,
        }
    }

    /// The STag of the sink as the Read Request names it.
    pub(crate) fn stag(&self) -> Stag {
        Stag(self.sge.lkey()).carried(self.sge.length())
    }
}

/// What the peer asks for.
#[derive(Clone, Copy)]
pub(crate) enum Asked {
    Read(ReadRequest),
    Atomic(AtomicRequest),
}

/// A request of the peer that rx has checked; at most IRD at a time, and those that confirm.
pub(crate) struct InboundRead {
    /// The message sequence number of the request.
    pub(crate) msn: Msn,
    pub(crate) asked: Asked,
    /// The source, or the target; `None` for a Read of zero bytes.
    pub(crate) source: Option<ResolvedMr>,
}

impl InboundRead {
    /// The bytes that the answer carries.
    fn len(&self) -> u32 {
        match &self.asked {
            Asked::Read(request) => request.len,
            Asked::Atomic(_) => ATOMIC_LEN,
        }
    }
}

struct Inbound {
    waiting: Fifo<InboundRead>,
    /// Tx is answering a Read. It counts against IRD until the end of its response is in a batch:
    /// the peer may not send another request before it has that response (RFC 5040 section 6.1).
    answering: bool,
    ird: u32,
    /// The peer's first Read may be the RTR, which needs no IRD.
    rtr: bool,
    /// Reads of the peer beyond the IRD, with which it confirms its Writes.
    confirming: u32,
    /// How many more tx takes, once an orderly close waits for nothing else.
    left: Option<u32>,
    /// Rx has found a fault behind what waits. The stream ends by it when all is answered.
    fault: Option<Terminate>,
}

impl Inbound {
    /// Whether the peer may send another request with that number, whose answer has `len` bytes.
    fn has_room(&self, msn: Msn, len: u32) -> bool {
        let rtr = self.rtr && msn == Msn::FIRST && len == 0;
        let most = match len {
            1.. if self.ird == 0 => 0,
            _ if self.confirming == 0 => self.ird,
            // Those that confirm may come before the others, and before the RTR is answered.
            _ => self.ird.max(self.rtr.into()) + self.confirming,
        };
        self.under_way() < most || rtr
    }

    fn under_way(&self) -> u32 {
        self.waiting.len() + u32::from(self.answering)
    }

    /// What [`InboundReads::count`] is.
    fn count(&self) -> u32 {
        self.waiting.len() + u32::from(self.fault.is_some())
    }
}

//= 5040-8.1.2-6: Queue resource consumption MUST be controlled by the Privileged
//# each Stream has a queue of its own
/// Reads of the peer that wait for tx. Rx adds them, tx takes them.
#[pin_data]
pub(crate) struct InboundReads {
    /// How much waits for tx in `queue`: Reads and a fault, for readers that do not hold the lock.
    count: AtomicU32,
    #[pin]
    queue: SpinLockIrq<Inbound>,
}

impl InboundReads {
    /// Makes a queue with room for no Read.
    pub(crate) fn new() -> impl PinInit<Self> {
        let queue = Inbound {
            waiting: Fifo::empty(),
            answering: false,
            ird: 0,
            rtr: false,
            confirming: 0,
            left: None,
            fault: None,
        };
        pin_init!(Self { count: AtomicU32::new(0), queue <- new_spinlock_irq!(queue, "rsiw_irq") })
    }

    //= 5040-5.2.2-3, 5040-6.1-2, 5040-6.1-5, 5040-8.1.2-6
    /// Makes room for `ird` Reads at a time, the number that both ends have agreed on. If `rtr`,
    /// the peer's first Read may be one of no bytes, also with an `ird` of 0; if it `confirms` its
    /// Writes, it has some of these more. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn set_ird(&self, ird: u32, rtr: bool, confirms: bool, flags: Flags) -> Result {
        let confirming = if confirms { CONFIRMING } else { 0 };
        let mut waiting = Fifo::with_capacity(ird.max(rtr.into()) + confirming, flags)?;
        let mut queue = self.queue.lock();
        queue.ird = ird;
        queue.rtr = rtr;
        queue.confirming = confirming;
        // A connection before this one may have ended in the middle of a response.
        queue.answering = false;
        queue.left = None;
        core::mem::swap(&mut queue.waiting, &mut waiting);
        drop(queue);
        Ok(())
    }

    //= 5040-5.2.1-9: The Remote Peer MUST process the RDMA Read Request
    //= 5040-5.2.1-3, 5040-6.1-5, 7306-5.2.2-5
    /// Rx queues a Read. Returns whether the peer now has as many under way as IRD allows; if it
    /// exceeds IRD, returns the Read as the error.
    pub(crate) fn push(&self, read: InboundRead) -> Result<bool, InboundRead> {
        let queue = &mut *self.queue.lock();
        if !queue.has_room(read.msn, read.len()) {
            return Err(read);
        }
        let last = queue.under_way() + 1 == queue.ird && read.len() != 0;
        queue.waiting.push(read)?;
        self.count.store(queue.count(), Ordering::Release);
        Ok(last)
    }

    /// Whether the peer may send an Atomic Request with that number. If so, [`Self::push`] takes
    /// it: nothing but rx adds any. Context: rx.
    pub(crate) fn has_room_for_atomic(&self, msn: Msn) -> bool {
        self.queue.lock().has_room(msn, ATOMIC_LEN)
    }

    /// Rx has found a fault, which has no part in the Reads that came before it: tx answers those
    /// first, and then ends the stream by `terminate`. Context: rx, which takes nothing more.
    ///
    /// # Errors
    ///
    /// Returns the Terminate if there is nothing to answer.
    pub(crate) fn end_by(&self, terminate: Terminate) -> Result<(), Terminate> {
        let queue = &mut *self.queue.lock();
        if queue.under_way() == 0 {
            return Err(terminate);
        }
        queue.fault = Some(terminate);
        self.count.store(queue.count(), Ordering::Release);
        Ok(())
    }

    /// Whether [`Self::end_by`] has a Terminate that tx has not taken. Context: any.
    pub(crate) fn has_fault(&self) -> bool {
        self.queue.lock().fault.is_some()
    }

    /// Returns the Terminate of [`Self::end_by`], once, when all is answered. Context: tx, with no
    /// message under way.
    pub(crate) fn take_fault(&self) -> Option<Terminate> {
        let queue = &mut *self.queue.lock();
        if queue.waiting.front().is_some() && queue.left != Some(0) {
            return None;
        }
        let fault = queue.fault.take();
        self.count.store(queue.count(), Ordering::Release);
        fault
    }

    //= 5040-5.2.2-5: The Data Source RDMAP layer MUST pass RDMA Read Response Messages
    //= 5040-5.5-10: Read Response Messages MUST be submitted to the DDP
    //= 5040-5.2.1-9, 7306-5.2.1-16, 7306-5.2.2-9, 7306-5.4-8a, 7306-5.4-8b
    /// Tx takes the oldest Read, to answer it.
    #[inline]
    pub(crate) fn pop(&self) -> Option<InboundRead> {
        // Most often there is none. Rx wakes tx after it has queued one, so none is missed.
        if self.is_empty() {
            return None;
        }
        self.take(u32::MAX)
    }

    /// As [`InboundReads::pop`], if the oldest Read is a short one.
    pub(crate) fn pop_short(&self) -> Option<InboundRead> {
        self.take(SHORT_READ)
    }

    /// As [`InboundReads::pop`], if the oldest Read is one of no bytes.
    pub(crate) fn pop_empty(&self) -> Option<InboundRead> {
        self.take(0)
    }

    /// How many Reads wait for tx.
    pub(crate) fn waiting(&self) -> u32 {
        self.queue.lock().waiting.len()
    }

    /// Whether nothing waits for tx.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn take(&self, len: u32) -> Option<InboundRead> {
        let queue = &mut *self.queue.lock();
        if queue.waiting.front()?.len() > len || queue.left == Some(0) {
            return None;
        }
        queue.left = queue.left.map(|left| left.saturating_sub(1));
        let read = queue.waiting.pop();
        self.count.store(queue.count(), Ordering::Release);
        queue.answering |= read.is_some();
        read
    }

    /// Tx has put the end of the response into the batch.
    pub(crate) fn answered(&self) {
        self.queue.lock().answering = false;
    }

    /// An orderly close waits for nothing but answers. Reads that wait now are still answered;
    /// later ones are not, or a peer that goes on reading could put off the close for ever.
    /// Context: any.
    pub(crate) fn end_here(&self) {
        let queue = &mut *self.queue.lock();
        queue.left.get_or_insert(queue.waiting.len());
    }

    /// Drops all queued Reads, and a fault behind them. Context: any in which references to regions
    /// may be dropped.
    pub(crate) fn clear(&self) {
        let mut queue = self.queue.lock();
        queue.left = None;
        queue.fault = None;
        self.count.store(queue.count(), Ordering::Release);
        drop(queue);
        while let Some(read) = self.pop() {
            drop(read);
        }
    }
}
