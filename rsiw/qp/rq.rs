// SPDX-License-Identifier: GPL-2.0

//! Receive queues: a QP's own, or one that several QPs share.
//!
//! Both are a ring of elements, filled by a process through its mapping or by a kernel consumer's
//! post, and emptied by rx. The lock serialises kernel posts, flushes, and the rx actors that share an
//! SRQ. The one that has a queue for itself takes from it without.

use super::BATCH;
use crate::{
    abi::{Rqe, Sge, MAX_SGE},
    cq::{Notify, Out},
    pd::PdId,
    ring::WorkRing,
    wr::{Completion, Status},
};
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use kext::{lock::SpinLockIrq, new_spinlock_irq};
use rdma::{Consumer, SrqEvent, SrqHandle};

struct State {
    put: u32,
    /// Low-water mark of a shared queue; 0 when no event is wanted.
    limit: u32,
    /// The QP is in ERROR: receives complete as flushed as soon as they are posted.
    flushed: bool,
}

/// A ring of receive requests.
#[pin_data]
pub(crate) struct RecvQueue {
    size: u32,
    max_sge: u32,
    /// Whose memory the requests name: a shared queue's domain need not be that of its QPs.
    pd: PdId,
    ring: WorkRing<Rqe>,
    /// How long a Send that finds no receive waits for one, in milliseconds.
    wait_ms: u32,
    /// The place that is taken from next. Changed by rx (of a shared queue, under the lock), or by a
    /// flush, when rx has stopped.
    get: AtomicU32,
    #[pin]
    state: SpinLockIrq<State>,
    /// A shared queue reports its limit here.
    srq: Option<SrqHandle>,
}

impl RecvQueue {
    /// A queue over `ring`, which has `size` elements (a power of two). A Send that finds it empty
    /// waits for `wait_ms` milliseconds.
    pub(crate) fn new(
        size: u32,
        max_sge: u32,
        pd: PdId,
        ring: WorkRing<Rqe>,
        limit: u32,
        srq: Option<SrqHandle>,
        wait_ms: u32,
    ) -> impl PinInit<Self> {
        let state = State {
            put: 0,
            limit,
            flushed: false,
        };
        pin_init!(Self {
            size,
            max_sge,
            pd,
            ring,
            wait_ms,
            get: AtomicU32::new(0),
            state <- new_spinlock_irq!(state, "rsiw_rq"),
            srq,
        })
    }

    /// Elements of the ring.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The protection domain of the memory that requests name.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// Scatter elements that a request may have.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// How long a Send that finds no receive waits for one, in milliseconds.
    pub(crate) fn wait_ms(&self) -> u32 {
        self.wait_ms
    }

    /// Whether a receive is posted, as it was a moment ago. Context: any.
    pub(crate) fn has_receive(&self) -> bool {
        self.ring.is_valid(self.get.load(Ordering::Relaxed))
    }

    /// The low-water mark; 0 when disarmed.
    pub(crate) fn limit(&self) -> u32 {
        self.state.lock().limit
    }

    /// Arms the low-water event of a shared queue, or disarms it by 0. Errors: `EINVAL`.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        if limit > self.size {
            return Err(EINVAL);
        }
        self.state.lock().limit = limit;
        Ok(())
    }

    /// A kernel consumer posts a receive. Context: any.
    ///
    /// `out` is where it completes at once when the QP is in ERROR; a shared queue has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full, `EINVAL` when there are too many elements.
    pub(crate) fn post(
        &self,
        id: u64,
        sges: impl Iterator<Item = Sge>,
        out: Option<Out<'_>>,
    ) -> Result<Notify> {
        let mut rqe = Rqe {
            id,
            ..Default::default()
        };
        let mut n = 0;
        for sge in sges {
            if n >= (self.max_sge as usize).min(MAX_SGE) {
                return Err(EINVAL);
            }
            rqe.sge[n] = sge;
            n += 1;
        }
        rqe.num_sge = n as u8;
        let st = &mut *self.state.lock();
        if let (true, Some(out)) = (st.flushed, out) {
            return Ok(out.complete(Completion::recv(id, Status::Flush, 0)));
        }
        if !self.ring.put(st.put, &rqe) {
            return Err(ENOMEM);
        }
        st.put = st.put.wrapping_add(1);
        Ok(Notify::default())
    }

    /// Fails the receive under way (`current`), then all that are posted, in order; afterwards
    /// kernel consumers' receives complete as flushed at once. Context: any, one call at a time.
    pub(crate) fn flush(&self, current: Option<(u64, Status)>, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        if let Some((id, status)) = current {
            notify |= out.complete(Completion::recv(id, status, 0));
        }
        // A process may refill what was flushed: the ring's size bounds the work, and a timer finds
        // the rest. A kernel consumer may post beside, but not in the one round that there is for
        // it, which leaves nothing.
        let batch = match self.ring.mem().consumer() {
            Consumer::Process => self.size.min(BATCH),
            Consumer::Kernel => self.size,
        };
        let mut left = self.size;
        loop {
            let st = &mut *self.state.lock();
            let mut empty = false;
            for _ in 0..batch {
                let mut rqe = Rqe::default();
                if !self.take_next(&mut rqe) {
                    empty = true;
                    break;
                }
                notify |= out.complete(Completion::recv(rqe.id, Status::Flush, 0));
            }
            left -= batch;
            if empty || left == 0 {
                st.flushed = true;
                return notify;
            }
        }
    }

    /// Takes the next receive, if one is posted, to `rqe`. Context: any.
    ///
    /// Raises the limit event of a shared queue when fewer than the limit remain.
    pub(crate) fn take(&self, rqe: &mut Rqe) -> bool {
        let Some(srq) = &self.srq else {
            return self.take_next(rqe);
        };
        let low = {
            let st = &mut *self.state.lock();
            if !self.take_next(rqe) {
                return false;
            }
            // Requests are consumed in order, so fewer than `limit` remain exactly when the
            // element `limit` places ahead is not filled.
            let get = self.get.load(Ordering::Relaxed);
            let low = st.limit != 0 && !self.ring.is_valid(get.wrapping_add(st.limit - 1));
            if low {
                st.limit = 0;
            }
            low
        };
        if low {
            srq.event(SrqEvent::LimitReached);
        }
        true
    }

    /// Takes what is next, for who may change `get`.
    fn take_next(&self, rqe: &mut Rqe) -> bool {
        let get = self.get.load(Ordering::Relaxed);
        if !self.ring.take_into(get, rqe) {
            return false;
        }
        self.get.store(get.wrapping_add(1), Ordering::Relaxed);
        true
    }
}
