// SPDX-License-Identifier: GPL-2.0

//! Verbs on completion queues.

use super::{context::is_extended, queue::ring_size};
use crate::{
    abi::{CreateCqReq, CreateCqResp, CQE_IMMEDIATE, CQE_INVALIDATED, CQ_TIME_STAMPS},
    cq::{Cq, Form},
    device::{max, Rsiw},
    quota::Held,
    ring::CompletionRing,
};
use kernel::{prelude::*, sync::Arc};
use rdma::{errno, Arm, Consumer, CqAttr, CqOps, Details, Device, NewCq, Udata, WcSlots};

/// The driver's object of the RDMA core's CQ.
pub(crate) struct Object {
    pub(crate) cq: Arc<Cq>,
    _held: Held,
}

/// Makes a ring of `size` completions, and tells the process how to map it. Context: sleeping.
fn shared_ring(size: u32, udata: &mut Udata<'_, Rsiw>) -> Result<CompletionRing> {
    udata.require_out(core::mem::size_of::<CreateCqResp>())?;
    let ring = CompletionRing::new(size)?;
    let cq_key = udata.share(ring.mem())?;
    udata.respond(&CreateCqResp {
        // Neither the provider nor the kernel uses this number.
        cq_id: 0,
        num_cqe: size,
        cq_key,
    })?;
    Ok(ring)
}

/// What the process' provider reads in completions. Errors: `EINVAL` for a request of another
/// provider than the driver's own; `EOPNOTSUPP` for one that is not known.
fn form(udata: &Udata<'_, Rsiw>, new: &NewCq<'_>) -> Result<Form> {
    let extended = is_extended(udata)?;
    let flags = match udata.in_len() {
        0 => 0,
        _ if !extended => return Err(EINVAL),
        _ => match udata.request()? {
            CreateCqReq { flags, reserved: 0 } if flags & !CQ_TIME_STAMPS == 0 => flags,
            _ => return Err(errno::unsupported()),
        },
    };
    Ok(Form {
        flags: if extended {
            CQE_INVALIDATED | CQE_IMMEDIATE
        } else {
            0
        },
        time_stamps: flags & CQ_TIME_STAMPS != 0,
        events: new.has_channel(),
    })
}

impl CqOps<Rsiw> for Object {
    //= 5040-8.1.2-5: The Privileged Resource Manager MUST control the allocation of CQ entries.
    //= 5040-8.1.2-2, 5041-8.3.2-3
    /// Creates a CQ with room for at least `attr.entries` completions. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for creation flags, `EINVAL` for a bad size or a process with a short response
    /// buffer, `ENOMEM`.
    fn create(
        dev: &Device<Rsiw>,
        attr: &CqAttr,
        user: Option<&mut Udata<'_, Rsiw>>,
        new: &mut NewCq<'_>,
    ) -> Result<Arc<Self>> {
        if attr.flags != 0 {
            return Err(errno::unsupported());
        }
        if attr.entries == 0 {
            return Err(EINVAL);
        }
        let size = ring_size(attr.entries, max::CQE)?;
        let held = dev.data().quotas.cq.hold()?;
        new.set_entries(size);
        let consumer = Consumer::of(&user);
        let ring = match user {
            Some(udata) => {
                let form = form(udata, new)?;
                Some((shared_ring(size, udata)?, form))
            }
            None => None,
        };
        let cq = Arc::pin_init(Cq::new(size, ring, new.handle())?, consumer.flags())?;
        Ok(Arc::new(Object { cq, _held: held }, consumer.flags())?)
    }

    fn describe(self: &Arc<Self>, details: &mut Details<'_>) -> Result {
        let status = self.cq.status();
        details.number(c"unpolled", status.unpolled.into())?;
        details.word(c"armed", status.armed)?;
        details.number(c"overflowed", status.overflowed.into())
    }

    fn modify(self: &Arc<Self>, count: u16, period_us: u16) -> Result {
        self.cq.moderate(count, period_us);
        Ok(())
    }

    /// Gives a process' queue a new ring; see [`Cq::replace_ring`]. A stream of completions goes on
    /// meanwhile, and none is lost. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a bad size or a short response buffer, `ENOMEM`, `EFAULT`. The queue is as it
    /// was then.
    fn resize(self: &Arc<Self>, entries: u32, udata: &mut Udata<'_, Rsiw>) -> Result<u32> {
        if entries == 0 {
            return Err(EINVAL);
        }
        let size = ring_size(entries, max::CQE)?;
        self.cq.replace_ring(shared_ring(size, udata)?)?;
        Ok(size)
    }

    fn destroy(self: &Arc<Self>) -> Result {
        self.cq.end();
        Ok(())
    }

    fn poll(self: &Arc<Self>, out: &mut WcSlots<'_>) -> Result {
        self.cq.poll(out)
    }

    fn req_notify(self: &Arc<Self>, how: Arm, report_missed: bool) -> Result<bool> {
        let waiting = self.cq.arm(how);
        Ok(report_missed && waiting)
    }
}
