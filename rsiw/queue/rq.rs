// SPDX-License-Identifier: GPL-2.0

//! Receive queues: a QP's own, or one that several QPs share.
//!
//! Both are a ring of elements. A process fills it through its mapping, a kernel consumer by its
//! posts; rx empties it. The lock serialises kernel posts, flushes, and the rx actors that share an
//! SRQ. The rx actor of a QP with a queue of its own takes from it without the lock. The ring of an
//! SRQ is used with the lock only, as a resize replaces it.

use super::BATCH;
use crate::{
    abi::Rqe,
    cq::{Notify, Out},
    pd::PdId,
    ring::WorkRing,
    wr::{Completion, Status},
};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use kernel::prelude::*;
use kext::{lock::SpinLockIrq, new_spinlock_irq};
use rdma::{Consumer, Sge, SrqEvent, SrqHandle, Wqe};

struct State {
    ring: WorkRing<Rqe>,
    put: u32,
    /// Low-water mark of a shared queue; 0 when no event is wanted.
    limit: u32,
    /// The QP is in ERROR: receives complete as flushed as soon as they are posted.
    flushed: bool,
}

/// What is told of a receive queue.
pub(crate) struct RqStatus {
    /// Elements of the ring.
    pub(crate) size: u32,
    /// Receives that wait.
    pub(crate) posted: u32,
    /// The low-water mark; 0 if it is disarmed.
    pub(crate) limit: u32,
}

/// A ring of receive requests.
#[pin_data]
pub(crate) struct RecvQueue {
    max_sge: u32,
    /// The protection domain of the memory that the requests name. A shared queue's domain need not
    /// be that of its QPs.
    pd: PdId,
    /// The ring of a queue that is not shared.
    own: Option<WorkRing<Rqe>>,
    /// How long a Send that finds no receive waits for one, in milliseconds.
    wait_ms: u32,
    /// Position of the next receive to take. Rx changes it (of a shared queue, under the lock), or
    /// a flush, when rx has stopped.
    get: AtomicU32,
    #[pin]
    state: SpinLockIrq<State>,
    /// A shared queue has another ring, to which its provider moves receives, and none was taken
    /// from it yet.
    moving: AtomicBool,
    /// The RDMA core's object of a shared queue, which gets its low-water event.
    srq: Option<SrqHandle>,
}

impl RecvQueue {
    /// Makes a queue over `ring`, a shared one if `srq` is given. A Send that finds it empty waits
    /// for `wait_ms` milliseconds.
    pub(crate) fn new(
        max_sge: u32,
        pd: PdId,
        ring: WorkRing<Rqe>,
        limit: u32,
        srq: Option<SrqHandle>,
        wait_ms: u32,
    ) -> impl PinInit<Self> {
        let own = match srq {
            Some(_) => None,
            None => Some(ring.clone()),
        };
        let state = State {
            ring,
            put: 0,
            limit,
            flushed: false,
        };
        pin_init!(Self {
            max_sge,
            pd,
            own,
            wait_ms,
            get: AtomicU32::new(0),
            moving: AtomicBool::new(false),
            state <- new_spinlock_irq!(state, "rsiw_rq"),
            srq,
        })
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

    /// How long it waits at the least, in milliseconds: there are receives, but the provider has to
    /// move them first.
    pub(crate) fn least_wait_ms(&self) -> u32 {
        const MOVE_MS: u32 = 1000;
        if self.moving.load(Ordering::Relaxed) {
            MOVE_MS
        } else {
            0
        }
    }

    /// Whether a receive is posted. The answer may be out of date at once. Context: any.
    pub(crate) fn has_receive(&self) -> bool {
        let get = self.get.load(Ordering::Relaxed);
        match &self.own {
            Some(ring) => ring.is_valid(get),
            None => self.state.lock().ring.is_valid(get),
        }
    }

    /// What is told of the queue. The answer may be out of date at once. Context: any.
    pub(crate) fn status(&self) -> RqStatus {
        let st = &*self.state.lock();
        RqStatus {
            size: st.ring.entries(),
            posted: st.ring.filled(self.get.load(Ordering::Relaxed)),
            limit: st.limit,
        }
    }

    /// Arms the low-water event of a shared queue, or disarms it by 0. Errors: `EINVAL`.
    pub(crate) fn set_limit(&self, limit: u32) -> Result {
        let st = &mut *self.state.lock();
        if limit > st.ring.entries() {
            return Err(EINVAL);
        }
        st.limit = limit;
        Ok(())
    }

    /// Has receives taken from `new` from now on, at the position that comes next, and sets the
    /// limit if one is given. The process' provider posts nothing meanwhile, and moves the receives
    /// that are left in the old ring, which nobody else looks at any more. So no receive is copied
    /// here, with interrupts off, and what a process writes meanwhile concerns itself only. A Send
    /// that comes before the provider has moved them waits ([`Self::least_wait_ms`]). Context:
    /// sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that is not shared, a ring with fewer elements than the limit says, or
    /// than receives are posted.
    pub(crate) fn replace_ring(&self, new: WorkRing<Rqe>, limit: Option<u32>) -> Result {
        if self.own.is_some() {
            return Err(EINVAL);
        }
        // The old ring is freed without the lock.
        let _old = {
            let st = &mut *self.state.lock();
            let limit = limit.unwrap_or(st.limit);
            let posted = st.ring.filled(self.get.load(Ordering::Relaxed));
            if limit.max(posted) > new.entries() {
                return Err(EINVAL);
            }
            st.limit = limit;
            self.moving.store(posted != 0, Ordering::Relaxed);
            core::mem::replace(&mut st.ring, new)
        };
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
        if !st.ring.put(st.put, &rqe) {
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
        // a timer finds the rest. What a kernel consumer posts meanwhile is taken out, too. If it
        // goes on and on, what is left at last is taken in one hold of the lock.
        let (size, consumer) = {
            let ring = &self.state.lock().ring;
            (ring.entries(), ring.mem().consumer())
        };
        let mut left = size;
        loop {
            let st = &mut *self.state.lock();
            // With one more than there may be, the last finds none.
            let most = if left == 0 { size + 1 } else { BATCH };
            left = left.saturating_sub(BATCH);
            let mut empty = false;
            for _ in 0..most {
                let mut rqe = Wqe::new(Rqe::default());
                if !self.take_next(&st.ring, &mut rqe) {
                    empty = true;
                    break;
                }
                each(rqe.id);
            }
            if empty || (left == 0 && matches!(consumer, Consumer::Process)) {
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

    //= 5040-8.1.2-7: Privileged Resource Manager MUST be able to detect if
    //# the event tells that a shared queue runs low, "rdma -dd res show qp" which peer took how
    //# many receives
    //= 5041-8.3.2-6: Manager MUST be able to detect if the Remote
    //# the event tells that a shared queue runs low, "rdma -dd res show qp" which peer took how
    //# many receives
    //= 5040-5.3-3
    /// Moves the next receive, if one is posted, to `rqe`. Context: any.
    ///
    /// Raises the limit event of a shared queue if fewer than the limit remain.
    pub(crate) fn take(&self, rqe: &mut Wqe<Rqe>) -> bool {
        if let Some(ring) = &self.own {
            return self.take_next(ring, rqe);
        }
        let low = {
            let st = &mut *self.state.lock();
            if !self.take_next(&st.ring, rqe) {
                return false;
            }
            if self.moving.load(Ordering::Relaxed) {
                self.moving.store(false, Ordering::Relaxed);
            }
            // Requests are consumed in order, so fewer than `limit` remain exactly when the
            // element `limit` places ahead is not filled.
            let get = self.get.load(Ordering::Relaxed);
            let low = st.limit != 0 && !st.ring.is_valid(get.wrapping_add(st.limit - 1));
            if low {
                st.limit = 0;
            }
            low
        };
        if let (true, Some(srq)) = (low, &self.srq) {
            srq.event(SrqEvent::LimitReached);
        }
        true
    }

    /// Moves the next receive of its ring to `rqe`. The caller is one that may change `get`.
    fn take_next(&self, ring: &WorkRing<Rqe>, rqe: &mut Wqe<Rqe>) -> bool {
        let get = self.get.load(Ordering::Relaxed);
        if !ring.take_into(get, rqe) {
            return false;
        }
        self.get.store(get.wrapping_add(1), Ordering::Relaxed);
        true
    }
}
