// SPDX-License-Identifier: GPL-2.0

//! Verbs on user contexts and protection domains.

use crate::{
    abi::{feature, AllocContextReq, AllocContextResp, Operations},
    device::Rsiw,
    pd::Pd,
    quota::Held,
};
use kernel::{prelude::*, sync::Arc};
use rdma::{Access, Consumer, ContextOps, Device, PdOps, Udata};

/// A process' context on a device.
pub(crate) struct Context {
    _held: Held,
    /// Bits of [`feature`].
    features: u32,
}

/// Whether the context of the process that calls a verb has all of `features`. None has that of the
/// library of siw.
pub(super) fn has(udata: &Udata<'_, Rsiw>, features: u32) -> Result<bool> {
    Ok(udata.context()?.features & features == features)
}

/// Whether the provider of the process that calls a verb is the driver's own. Not that of siw, nor
/// for a kernel consumer.
pub(super) fn is_extended(udata: &Udata<'_, Rsiw>) -> Result<bool> {
    has(udata, feature::EXTENDED)
}

/// The operations that the provider of the process that calls a verb knows.
pub(super) fn known(udata: &Udata<'_, Rsiw>) -> Result<Operations> {
    Ok(Operations::of(udata.context()?.features))
}

impl ContextOps<Rsiw> for Context {
    fn alloc(dev: &Device<Rsiw>, udata: &mut Udata<'_, Rsiw>) -> Result<Arc<Self>> {
        // The library of siw makes no request.
        let asked = match udata.in_len() {
            0 => 0,
            _ => match udata.request()? {
                AllocContextReq {
                    features,
                    reserved: 0,
                } => features,
                _ => return Err(rdma::errno::unsupported()),
            },
        };
        let features = feature::granted(asked);
        let context = Context {
            _held: dev.data().quotas.context.hold()?,
            features,
        };
        udata.require_out(core::mem::size_of::<AllocContextResp>())?;
        udata.respond(&AllocContextResp {
            dev_id: 0,
            features,
        })?;
        // Only processes have a context.
        Ok(Arc::new(context, Consumer::Process.flags())?)
    }
}

impl PdOps<Rsiw> for Pd {
    fn alloc(dev: &Device<Rsiw>, user: Option<&mut Udata<'_, Rsiw>>) -> Result<Arc<Self>> {
        let consumer = Consumer::of(&user);
        let mut more = Access::from_bits(0);
        if let Some(udata) = user {
            if is_extended(udata)? {
                more = more | Access::MW_BIND;
            }
            if has(udata, feature::PLACEMENT)? {
                more = more | Access::FLUSH_GLOBAL;
            }
        }
        Pd::new(&dev.data().quotas.pd, consumer, more)
    }
}
