// SPDX-License-Identifier: GPL-2.0

//! Verbs on shared receive queues.

use super::queue::{recv_wait_ms, ring_size};
use crate::{
    abi::{CreateSrqResp, MAX_SGE},
    device::{max, Rsiw},
    limit::Held,
    pd::Pd,
    queue::rq::RecvQueue,
    ring::WorkRing,
};
use kernel::{prelude::*, sync::Arc};
use rdma::{errno, Consumer, Details, Device, NewSrq, RecvWrs, SrqAttr, SrqOps, Udata};

/// A shared receive queue.
pub(crate) struct Srq {
    pub(crate) rq: Arc<RecvQueue>,
    _held: Held,
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
        let held = dev.data().limits.srq.hold()?;
        let consumer = Consumer::of(&user);
        let ring = WorkRing::new(size, consumer)?;
        if let Some(udata) = user {
            udata.require_out(core::mem::size_of::<CreateSrqResp>())?;
            let srq_key = udata.share(ring.mem())?;
            udata.respond(&CreateSrqResp {
                num_rqe: size,
                pad: 0,
                srq_key,
            })?;
        }
        attr.max_wr = size;
        let rq = RecvQueue::new(
            size,
            attr.max_sge,
            pd.id(),
            ring,
            attr.limit,
            Some(new.handle()),
            recv_wait_ms(dev.data(), consumer),
        );
        let rq = Arc::pin_init(rq, consumer.flags())?;
        Ok(Arc::new(Srq { rq, _held: held }, consumer.flags())?)
    }

    /// Arms the limit event. Errors: `EOPNOTSUPP` for another size, as resizing is not supported;
    /// `EINVAL` for a limit out of range.
    fn modify(self: &Arc<Self>, max_wr: Option<u32>, limit: Option<u32>) -> Result {
        if max_wr.is_some() {
            return Err(errno::unsupported());
        }
        match limit {
            Some(limit) => self.rq.set_limit(limit),
            None => Ok(()),
        }
    }

    fn query(self: &Arc<Self>) -> Result<SrqAttr> {
        Ok(SrqAttr {
            max_wr: self.rq.size(),
            max_sge: self.rq.max_sge(),
            limit: self.rq.limit(),
        })
    }

    fn describe(self: &Arc<Self>, details: &mut Details<'_>) -> Result {
        details.number(c"size", self.rq.size().into())?;
        details.number(c"posted", self.rq.posted().into())?;
        details.number(c"limit", self.rq.limit().into())
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
