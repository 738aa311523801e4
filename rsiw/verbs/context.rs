// SPDX-License-Identifier: GPL-2.0

//! Verbs on user contexts and protection domains.

use crate::{abi::AllocContextResp, device::Rsiw, limit::Held, pd::Pd};
use kernel::{prelude::*, sync::Arc};
use rdma::{Consumer, ContextOps, Device, PdOps, Udata};

/// A process' context on a device.
pub(crate) struct Context {
    _held: Held,
}

impl ContextOps<Rsiw> for Context {
    fn alloc(dev: &Device<Rsiw>, udata: &mut Udata<'_, Rsiw>) -> Result<Arc<Self>> {
        let context = Context {
            _held: dev.data().limits.context.hold()?,
        };
        udata.require_out(core::mem::size_of::<AllocContextResp>())?;
        udata.respond(&AllocContextResp { dev_id: 0, pad: 0 })?;
        // Only processes have a context.
        Ok(Arc::new(context, Consumer::Process.flags())?)
    }
}

impl PdOps<Rsiw> for Pd {
    fn alloc(dev: &Device<Rsiw>, user: Option<&mut Udata<'_, Rsiw>>) -> Result<Arc<Self>> {
        Pd::new(&dev.data().limits.pd, Consumer::of(&user))
    }
}
