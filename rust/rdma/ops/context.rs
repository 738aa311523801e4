// SPDX-License-Identifier: GPL-2.0

//! Operations on user contexts and protection domains.

use super::{errno, Ops};
use crate::{
    device::Device,
    driver::{ContextOps, Driver, PdOps},
    object::pd::PdObject,
    udata::{ContextObject, Udata},
};
use kext::noio::noio_if;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `alloc_ucontext` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn alloc_ucontext(
        context: *mut bindings::ib_ucontext,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: The core has set the `device` of the context that it creates. `udata` is that of
        // the verb in progress.
        let (dev, mut udata) = unsafe {
            (
                Device::<D>::from_raw((*context).device),
                Udata::without_context(udata),
            )
        };
        errno(D::Context::alloc(dev, &mut udata).map(|data| {
            // SAFETY: `context` is being created by the core, which has allocated as many bytes as
            // asked for.
            unsafe { ContextObject::<D>::init(context, data) };
        }))
    }

    /// The `dealloc_ucontext` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        // SAFETY: `context` has its state, which is taken once, as the core frees the context when
        // this returns. All objects of the context are destroyed, and no verb of it is in progress.
        let data = unsafe { ContextObject::<D>::take(context) };
        data.dealloc();
    }

    /// The `disassociate_ucontext` operation. A device that has it can be removed while processes
    /// have it open: the core destroys their objects. Mapped rings are memory of their own, so
    /// nothing is left to do.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn disassociate_ucontext(_: *mut bindings::ib_ucontext) {}

    /// The `alloc_pd` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn alloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        let is_kernel = udata.is_null();
        // SAFETY: The core has set the `device` of the protection domain that it creates. `udata`
        // is null or that of the verb in progress.
        let (dev, mut udata) =
            unsafe { (Device::<D>::from_raw((*pd).device), Udata::new(udata, None)) };
        let made = noio_if(is_kernel, || D::Pd::alloc(dev, udata.as_mut()));
        errno(made.map(|data| {
            // SAFETY: `pd` is being created by the core, which has allocated as many bytes as asked
            // for.
            unsafe { PdObject::<D>::init(pd, data) };
        }))
    }

    /// The `dealloc_pd` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn dealloc_pd(
        pd: *mut bindings::ib_pd,
        _udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `pd` has its state, as it was created and is destroyed here.
        if let Err(e) = unsafe { PdObject::<D>::state(pd) }.dealloc() {
            return e.to_errno();
        }
        // SAFETY: `pd` has its state, which is taken once, as the core frees the domain when this
        // succeeds. No object uses it any more: the core counts them.
        drop(unsafe { PdObject::<D>::take(pd) });
        0
    }
}
