// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads in both directions: those that we wait for, and those that the peer asked of us.

use super::sq::Seq;
use crate::{fifo::Fifo, mem::Grant};
use iwarp::{Msn, ReadRequest};
use kernel::prelude::*;
use rdma::lock::{new_spinlock_irq, SpinLockIrq};

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
    /// The sink; `None` for a Read of zero bytes.
    pub(crate) sink: Option<Grant>,
    /// The sink's STag is invalidated when the data has arrived.
    pub(crate) invalidate: bool,
}

/// A Read that the peer asked for, checked; at most IRD at a time.
pub(crate) struct InboundRead {
    /// The request's number.
    pub(crate) msn: Msn,
    pub(crate) request: ReadRequest,
    /// The source; `None` for a Read of zero bytes.
    pub(crate) source: Option<Grant>,
}

/// Reads of the peer that wait for tx: filled by rx, drained by tx.
#[pin_data]
pub(crate) struct InboundReads {
    #[pin]
    queue: SpinLockIrq<Fifo<InboundRead>>,
}

impl InboundReads {
    /// Room for no Read.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { queue <- new_spinlock_irq!(Fifo::empty(), "rsiw_irq") })
    }

    /// Makes room for `ird` Reads at a time. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn set_ird(&self, ird: u32) -> Result {
        let mut waiting = Fifo::with_capacity(ird)?;
        core::mem::swap(&mut *self.queue.lock(), &mut waiting);
        Ok(())
    }

    /// Rx queues a Read. Gives it back when the peer exceeds IRD.
    pub(crate) fn push(&self, read: InboundRead) -> Result<(), InboundRead> {
        self.queue.lock().push(read)
    }

    /// Tx takes the oldest Read.
    pub(crate) fn pop(&self) -> Option<InboundRead> {
        self.queue.lock().pop()
    }

    /// Drops what is queued. Context: any in which dropping a region reference is fine.
    pub(crate) fn clear(&self) {
        while let Some(read) = self.pop() {
            drop(read);
        }
    }
}
