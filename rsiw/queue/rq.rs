// SPDX-License-Identifier: GPL-2.0

//! Receive queues: a QP's own, or one that several QPs share.
//!
//! Both are a ring of elements. A process fills it through its mapping, a kernel consumer by its
//! posts; rx empties it. The lock serialises kernel posts, flushes, and the rx actors that share an
//! SRQ. The rx actor of a QP with a queue of its own takes from it without the lock.

use super::BATCH;
use crate::{
    abi::Rqe,
    cq::{Notify, Out},
    pd::PdId,
    ring::{count_valid, WorkRing},
    wr::{Completion, Status},
};
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use kext::{lock::SpinLockIrq, new_spinlock_irq};
use rdma::{Consumer, Sge, SrqEvent, SrqHandle, Wqe};

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
    /// The protection domain of the memory that the requests name. A shared queue's domain need not
    /// be that of its QPs.
    pd: PdId,
    ring: WorkRing<Rqe>,
    /// How long a Send that finds no receive waits for one, in milliseconds.
    wait_ms: u32,
    /// Position of the next receive to take. Rx changes it (of a shared queue, under the lock), or
    /// a flush, when rx has stopped.
    get: AtomicU32,
    #[pin]
    state: SpinLockIrq<State>,
    /// The RDMA core's object of a shared queue, which gets its low-water event.
    srq: Option<SrqHandle>,
}

impl RecvQueue {
    /// Makes a queue over `ring`, which has `size` elements (a power of two). A Send that finds it
    /// empty waits for `wait_ms` milliseconds.
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

    /// The number of elements of the ring.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The protection domain of the memory that requests name.
    pub(crate) fn pd(&self) -> PdId {
        self.pd
    }

    /// The number of scatter elements that a request may have.
    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// How long a Send that finds no receive waits for one, in milliseconds.
    pub(crate) fn wait_ms(&self) -> u32 {
        self.wait_ms
    }

    /// Whether a receive is posted. The answer may be out of date at once. Context: any.
    pub(crate) fn has_receive(&self) -> bool {
        self.ring.is_valid(self.get.load(Ordering::Relaxed))
    }

    /// The receives that are posted. The answer may be out of date at once. Context: any.
    pub(crate) fn posted(&self) -> u32 {
        let get = self.get.load(Ordering::Relaxed);
        count_valid(self.size, |n| self.ring.is_valid(get.wrapping_add(n)))
    }

    /// The low-water mark; 0 if it is disarmed.
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
    /// `out` is the CQ for receives that complete at once, as they do in ERROR; a shared queue has
    /// none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when the queue is full, `EINVAL` when there are too many elements.
    pub(crate) fn post(&self, id: u64, sges: &[Sge], out: Option<Out<'_>>) -> Result<Notify> {
        if sges.len() > self.max_sge as usize {
            return Err(EINVAL);
        }
        let mut rqe = Wqe::new(Rqe {
            id,
            num_sge: sges.len() as u8,
            ..Default::default()
        });
        if !rqe.set_sges(sges).is_empty() {
            return Err(EINVAL);
        }
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

    /// Completes the receive under way (`current`) with its status, then all that are posted as
    /// flushed, in order. From then on kernel consumers' receives complete as flushed when they are
    /// posted. Context: any, one call at a time.
    pub(crate) fn flush(&self, current: Option<(u64, Status)>, out: Out<'_>) -> Notify {
        let mut notify = Notify::default();
        if let Some((id, status)) = current {
            notify |= out.complete(Completion::recv(id, status, 0));
        }
        self.empty(|id| notify |= out.complete(Completion::recv(id, Status::Flush, 0)));
        notify
    }

    /// Takes out all receives that are posted, and calls `each` with their names.
    fn empty(&self, mut each: impl FnMut(u64)) {
        // A process may refill elements that were flushed. So the ring's size bounds the work, and
        // a timer finds the rest. A kernel consumer may post at the same time, but not during the
        // one round that its queue takes, which leaves no receive.
        let batch = match self.ring.mem().consumer() {
            Consumer::Process => self.size.min(BATCH),
            Consumer::Kernel => self.size,
        };
        let mut left = self.size;
        loop {
            let st = &mut *self.state.lock();
            let mut empty = false;
            for _ in 0..batch {
                let mut rqe = Wqe::new(Rqe::default());
                if !self.take_next(&mut rqe) {
                    empty = true;
                    break;
                }
                each(rqe.id);
            }
            left -= batch;
            if empty || left == 0 {
                st.flushed = true;
                return;
            }
        }
    }

    /// Forgets all receives that are posted, without completions. Until [`Self::reset`] it is as
    /// after [`Self::flush`]. Context: any, one call at a time.
    pub(crate) fn discard(&self) {
        self.empty(|_| {});
    }

    /// Ends what [`Self::flush`] has begun: receives are queued again, and not flushed. Context:
    /// any.
    pub(crate) fn reset(&self) {
        self.state.lock().flushed = false;
    }

    /// Moves the next receive, if one is posted, to `rqe`. Context: any.
    ///
    /// Raises the limit event of a shared queue if fewer than the limit remain.
    pub(crate) fn take(&self, rqe: &mut Wqe<Rqe>) -> bool {
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

    /// Moves the next receive to `rqe`. The caller is one that may change `get`.
    fn take_next(&self, rqe: &mut Wqe<Rqe>) -> bool {
        let get = self.get.load(Ordering::Relaxed);
        if !self.ring.take_into(get, rqe) {
            return false;
        }
        self.get.store(get.wrapping_add(1), Ordering::Relaxed);
        true
    }
}
