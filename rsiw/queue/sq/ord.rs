// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads and atomic operations of this end that wait for their responses, and their limit, the
//! ORD.

use super::{Placed, SendQueue, Seq, Slot, WakeTx};
use crate::{
    cq::{Notify, Out},
    fifo::Fifo,
    queue::reads::{OutstandingRead, CONFIRMING},
    wr::{SendOp, SendWr},
};
use core::sync::atomic::Ordering;
use iwarp::Msn;
use kernel::prelude::*;
use rdma::Consumer;

/// Why a request waits for RDMA Reads before it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadsBefore {
    /// It has a fence, or is an atomic Write behind one that the peer answers in turn.
    Fence,
    /// It is a Read, and as many are under way as the ORD allows.
    Ord,
}

impl SendQueue {
    //= 5040-6.1-3
    /// Makes room for `ord` RDMA Reads at a time, and in any case for the Read of connection setup,
    /// which no consumer posts; if tx `confirms` Writes, for the Reads that do so, too. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(crate) fn set_ord(&self, ord: u32, confirms: bool) -> Result {
        let flags = Consumer::of(&self.ring).flags();
        let confirming = if confirms { CONFIRMING } else { 0 };
        let mut reads = Fifo::with_capacity(ord.max(1) + confirming, flags)?;
        let mut st = self.state.lock();
        st.agreed_ord = ord;
        st.placed = Placed::nothing(confirms);
        self.ord.store(ord, Ordering::Relaxed);
        // The old queue (which is empty, as the QP was not connected) is freed outside the lock.
        core::mem::swap(&mut st.reads, &mut reads);
        drop(st);
        Ok(())
    }

    /// Limits the number of RDMA Reads at a time to `most`, for those that begin from now on, and
    /// to what the connection was set up for. Context: any.
    pub(crate) fn limit_ord(&self, most: u32) {
        let st = &mut *self.state.lock();
        self.ord.store(most.min(st.agreed_ord), Ordering::Relaxed);
    }

    /// Whether the connection was set up for RDMA Reads of this end.
    pub(crate) fn may_read(&self) -> bool {
        self.ord() != 0
    }

    fn ord(&self) -> u32 {
        self.ord.load(Ordering::Relaxed)
    }

    //= 5040-6.1-4: the RDMAP layer MUST NOT exceed the maximum number
    /// Whether the request may start: an RDMA Read or an atomic operation needs room among the
    /// outstanding Reads, and a fenced request waits for all of them. So does an atomic Write, but
    /// for those before it: the peer writes when it comes, and would do so before it answers what
    /// came earlier. If the request may not start, a completed Read wakes tx. Context: tx.
    pub(crate) fn may_start(&self, wr: &SendWr) -> Result<(), ReadsBefore> {
        if !wr.fence && !wr.op.is_answered() {
            return Ok(());
        }
        let st = &mut *self.state.lock();
        let reads = st.placed.of_consumer(&st.reads);
        let overtakes = wr.op == SendOp::AtomicWrite && st.reads.iter().any(|read| !read.at_once);
        let may = if wr.fence && reads != 0 || overtakes {
            Err(ReadsBefore::Fence)
        } else if wr.op.is_answered() && reads >= self.ord().max(1) {
            Err(ReadsBefore::Ord)
        } else {
            Ok(())
        };
        st.tx_waits |= may.is_err();
        may
    }

    //= 5040-6.1-4, 7306-5.2.2-6
    /// Records a Read that tx is about to send. Context: tx, after [`Self::may_start`].
    ///
    /// # Errors
    ///
    /// Returns the Read if there is no room among the outstanding Reads.
    pub(crate) fn start_read(&self, read: OutstandingRead) -> Result<(), OutstandingRead> {
        let st = &mut *self.state.lock();
        if read.confirms.is_some() {
            st.placed.confirmation_begins();
        }
        if let Some(seq) = read.seq {
            let slot = self.slot(seq);
            slot.set(Slot {
                read_pending: true,
                ..slot.get()
            });
        }
        st.reads.push(read)
    }

    /// The position of the Read or atomic operation that the peer refuses, and whether it is an
    /// atomic operation: that with the number `msn`, or the one whose response is due next, as most
    /// peers serve them in order. Reads that confirm are not refused, and may have no answer yet:
    /// the peer gives none in the middle of a message, and none afterwards. Context: rx.
    pub(crate) fn outstanding_read(&self, msn: Option<Msn>) -> Option<(Option<Seq>, bool)> {
        let st = self.state.lock();
        let is_posted = |read: &&OutstandingRead| read.confirms.is_none();
        let read = match st.reads.iter().find(|read| Some(read.msn) == msn) {
            Some(named) => Some(named).filter(is_posted),
            None => st.reads.iter().find(is_posted),
        }?;
        Some((read.seq, read.atomic.is_some()))
    }

    /// A response arrives: to the atomic operation with that Request Identifier, or to a Read.
    /// Returns what it answers, if that is due next. Its sink goes to the caller; what stays in the
    /// queue is all that completes it. Context: rx, once a response.
    pub(crate) fn take_read_head(&self, atomic: Option<u32>) -> Option<OutstandingRead> {
        let st = &mut *self.state.lock();
        let head = st.reads.front_mut().filter(|read| read.atomic == atomic)?;
        let sink = head.sink.take();
        Some(OutstandingRead {
            sink,
            ..head.clone()
        })
    }

    //= 5040-5.2.2-4, 5040-5.5-2
    /// The response to the oldest Read has arrived in full. Context: rx.
    pub(crate) fn complete_oldest_read(&self, out: Out<'_>) -> (Notify, WakeTx) {
        let (read, notify, wake) = self.take_read(out);
        // Outside the lock, as it refers to a region.
        drop(read);
        (notify, wake)
    }

    fn take_read(&self, out: Out<'_>) -> (Option<OutstandingRead>, Notify, WakeTx) {
        let mut guard = self.state.lock();
        let st = &mut *guard;
        let read = st.reads.pop();
        let wakes = read.as_ref().is_some_and(|read| st.placed.answered(read));
        if let Some((seq, len)) = read.as_ref().and_then(|r| Some((r.seq?, r.sge.length()))) {
            let slot = self.slot(seq);
            slot.set(Slot {
                read_pending: false,
                bytes: len,
                ..slot.get()
            });
        }
        let (notify, all) = self.advance(st, out);
        let mut wake = core::mem::take(&mut st.tx_waits) || wakes;
        drop(guard);
        let notify = self.advance_rest(notify, all, out);
        if !all {
            // Tx may have begun to wait for the rest meanwhile.
            wake |= core::mem::take(&mut self.state.lock().tx_waits);
        }
        (read, notify, WakeTx(wake))
    }
}
