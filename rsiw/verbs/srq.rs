// SPDX-License-Identifier: GPL-2.0

//! Verbs on shared receive queues.

use super::{
    context::has,
    queue::{recv_wait_ms, ring_size},
};
use crate::{
    abi::{feature, CreateSrqResp, ResizeSrqReq, Rqe, MAX_SGE},
    device::{max, Rsiw},
    pd::Pd,
    queue::rq::RecvQueue,
    quota::Held,
    ring::WorkRing,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use rdma::{errno, Consumer, Details, Device, NewSrq, RecvWrs, SrqAttr, SrqOps, Udata};

/// A shared receive queue.
#[pin_data]
pub(crate) struct Srq {
    pub(crate) rq: Arc<RecvQueue>,
    /// The ring that the queue is going to have, when its process has mapped it.
    #[pin]
    prepared: Mutex<Option<WorkRing<Rqe>>>,
    _held: Held,
}

/// Lets a process map the queue's ring: the answer that tells how. Context: sleeping.
fn shared(ring: &WorkRing<Rqe>, udata: &mut Udata<'_, Rsiw>) -> Result<CreateSrqResp> {
    Ok(CreateSrqResp {
        num_rqe: ring.entries(),
        pad: 0,
        srq_key: udata.share(ring.mem())?,
    })
}

impl SrqOps<Rsiw> for Srq {
    /// Creates a shared receive queue. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` for limits out of range, `ENOMEM`.
    fn create(
        dev: &Device<Rsiw>,
        pd: &Arc<Pd>,
        attr: &mut SrqAttr,
        user: Option<&mut Udata<'_, Rsiw>>,
        new: &mut NewSrq<'_>,
    ) -> Result<Arc<Srq>> {
        if attr.max_wr == 0 || attr.max_sge > MAX_SGE as u32 || attr.limit > attr.max_wr {
            return Err(EINVAL);
        }
        let size = ring_size(attr.max_wr, max::SRQ_WR)?;
        let held = dev.data().quotas.srq.hold()?;
        let consumer = Consumer::of(&user);
        let ring = WorkRing::new(size, consumer)?;
        if let Some(udata) = user {
            udata.require_out(core::mem::size_of::<CreateSrqResp>())?;
            let answer = shared(&ring, udata)?;
            udata.respond(&answer)?;
        }
        attr.max_wr = size;
        let rq = RecvQueue::new(
            attr.max_sge,
            pd.id(),
            ring,
            attr.limit,
            Some(new.handle()),
            recv_wait_ms(dev.data(), consumer),
        );
        let rq = Arc::pin_init(rq, consumer.flags())?;
        Arc::pin_init(
            pin_init!(Srq {
                rq,
                prepared <- new_mutex!(None, "rsiw_srq_prepared"),
                _held: held,
            }),
            consumer.flags(),
        )
    }

    /// Arms the limit event. Errors: `EINVAL` for a limit out of range.
    fn set_limit(self: &Arc<Self>, limit: u32) -> Result {
        self.rq.set_limit(limit)
    }

    /// Makes another ring for the queue, or, without an address for the answer, gives it the one
    /// that was made; see [`RecvQueue::replace_ring`]. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for a process whose provider cannot do its part; `EINVAL` for a bad size, one
    /// below the limit, or below the receives that are posted, or for which no ring was made;
    /// `ENOMEM`; `EFAULT`. The queue is as it was then.
    fn resize(
        self: &Arc<Self>,
        max_wr: u32,
        limit: Option<u32>,
        udata: &mut Udata<'_, Rsiw>,
    ) -> Result {
        // Whatever becomes of this call, the process maps that ring no more.
        let prepared = self.prepared.lock().take();
        if !has(udata, feature::RESIZE_SRQ)? {
            return Err(errno::unsupported());
        }
        if max_wr == 0 {
            return Err(EINVAL);
        }
        let size = ring_size(max_wr, max::SRQ_WR)?;
        let request: ResizeSrqReq = udata.request()?;
        if request.answer == 0 {
            let ring = prepared.filter(|ring| ring.entries() == size);
            return self.rq.replace_ring(ring.ok_or(EINVAL)?, limit);
        }
        let ring = WorkRing::new(size, Consumer::Process)?;
        let answer = shared(&ring, udata)?;
        udata.write_to(request.answer, &answer)?;
        *self.prepared.lock() = Some(ring);
        Ok(())
    }

    fn query(self: &Arc<Self>) -> Result<SrqAttr> {
        let status = self.rq.status();
        Ok(SrqAttr {
            max_wr: status.size,
            max_sge: self.rq.max_sge(),
            limit: status.limit,
        })
    }

    fn describe(self: &Arc<Self>, details: &mut Details<'_>) -> Result {
        let status = self.rq.status();
        details.number(c"size", status.size.into())?;
        details.number(c"posted", status.posted.into())?;
        details.number(c"limit", status.limit.into())
    }

    /// Posts a kernel consumer's receives, up to the first bad one. Context: any. Errors: `ENOMEM`
    /// if the queue is full, `EINVAL` for too many elements.
    fn post_recv(self: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        while let Some(wr) = wrs.next() {
            let _ = self.rq.post(wr.id, wr.sges, None)?;
        }
        Ok(())
    }
}
