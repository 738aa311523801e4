// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads in both directions: those that we wait for, and those that the peer asked of us.

use super::sq::Seq;
use crate::{fifo::Fifo, mem::ResolvedMr};
use core::sync::atomic::{AtomicU32, Ordering};
use iwarp::{Msn, ReadRequest};
use kernel::{alloc::Flags, prelude::*};
use kext::lock::{new_spinlock_irq, SpinLockIrq};

/// A Read of the peer of up to so many bytes is answered in the receive callback. What is longer
/// takes its turn in a worker: the copy would keep the CPU from what the callback interrupted.
pub(crate) const SHORT_READ: u32 = 2048;

/// A Read that was sent and whose response is due; at most ORD at a time.
#[derive(Clone)]
pub(crate) struct OutstandingRead {
    /// The request's place in the send queue; `None` for the Read of connection setup (RFC 6581
    /// section 5), which no consumer posted.
    pub(crate) seq: Option<Seq>,
    /// STag and address that the request named as its sink.
    pub(crate) stag: u32,
    pub(crate) addr: u64,
    pub(crate) len: u32,
    /// The sink; `None` for a Read of zero bytes that invalidates nothing.
    pub(crate) sink: Option<ResolvedMr>,
    /// The sink's STag is invalidated when the data has arrived.
    pub(crate) invalidate: bool,
}

/// A Read that the peer asked for, checked; at most IRD at a time.
pub(crate) struct InboundRead {
    /// The request's number.
    pub(crate) msn: Msn,
    pub(crate) request: ReadRequest,
    /// The source; `None` for a Read of zero bytes.
    pub(crate) source: Option<ResolvedMr>,
}

struct Inbound {
    waiting: Fifo<InboundRead>,
    /// Tx is answering one. It counts against IRD until the end of its response is on its way: the
    /// peer may not send another before it has seen that (RFC 5040 section 6.1).
    answering: bool,
    ird: u32,
}

/// Reads of the peer that wait for tx: filled by rx, drained by tx.
#[pin_data]
pub(crate) struct InboundReads {
    /// How many wait, for who does not hold the lock.
    count: AtomicU32,
    #[pin]
    queue: SpinLockIrq<Inbound>,
}

impl InboundReads {
    /// Room for no Read.
    pub(crate) fn new() -> impl PinInit<Self> {
        let queue = Inbound {
            waiting: Fifo::empty(),
            answering: false,
            ird: 0,
        };
        pin_init!(Self { count: AtomicU32::new(0), queue <- new_spinlock_irq!(queue, "rsiw_irq") })
    }

    /// Makes room for `ird` Reads at a time: what was agreed on. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn set_ird(&self, ird: u32, flags: Flags) -> Result {
        let mut waiting = Fifo::with_capacity(ird, flags)?;
        let mut queue = self.queue.lock();
        queue.ird = ird;
        core::mem::swap(&mut queue.waiting, &mut waiting);
        drop(queue);
        Ok(())
    }

    /// Rx queues a Read. Gives it back when the peer exceeds IRD.
    pub(crate) fn push(&self, read: InboundRead) -> Result<(), InboundRead> {
        let queue = &mut *self.queue.lock();
        if queue.waiting.len() + u32::from(queue.answering) >= queue.ird {
            return Err(read);
        }
        queue.waiting.push(read)?;
        self.count.store(queue.waiting.len(), Ordering::Release);
        Ok(())
    }

    /// Tx takes the oldest Read, to answer it.
    #[inline]
    pub(crate) fn pop(&self) -> Option<InboundRead> {
        // Most often so. Rx wakes tx after it has queued one.
        if self.is_empty() {
            return None;
        }
        self.take(u32::MAX)
    }

    /// As [`InboundReads::pop`], if it is a short one.
    pub(crate) fn pop_short(&self) -> Option<InboundRead> {
        self.take(SHORT_READ)
    }

    /// How many wait for tx to answer them.
    pub(crate) fn waiting(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn take(&self, len: u32) -> Option<InboundRead> {
        let queue = &mut *self.queue.lock();
        if queue.waiting.front()?.request.len > len {
            return None;
        }
        let read = queue.waiting.pop();
        self.count.store(queue.waiting.len(), Ordering::Release);
        queue.answering |= read.is_some();
        read
    }

    /// The end of the response is in the batch.
    pub(crate) fn answered(&self) {
        self.queue.lock().answering = false;
    }

    /// Drops what is queued. Context: any in which dropping a region reference is fine.
    pub(crate) fn clear(&self) {
        while let Some(read) = self.pop() {
            drop(read);
        }
    }
}
