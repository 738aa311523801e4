// SPDX-License-Identifier: GPL-2.0

//! Operations on user contexts and protection domains.

use super::{errno, Ops};
use crate::{
    device::Device,
    noio::noio_in_kernel,
    object::{ContextObject, NewPd, PdObject},
    span::KernelMemory,
    udata::Udata,
    Driver,
};
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `alloc_ucontext` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn alloc_ucontext(
        context: *mut bindings::ib_ucontext,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: As the module says.
        let result = unsafe {
            let dev = Device::<D>::from_raw((*context).device);
            let mut udata = Udata::without_context(udata);
            D::alloc_context(dev, &mut udata).map(|data| ContextObject::<D>::init(context, data))
        };
        errno(result)
    }

    /// The `dealloc_ucontext` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        // SAFETY: As the module says.
        let data = unsafe { ContextObject::<D>::take(context) };
        D::dealloc_context(&data);
    }

    /// That there is this operation lets a device go while processes have it open: the core then
    /// destroys their objects. Mapped rings are memory of their own, so there is nothing to do.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn disassociate_ucontext(_: *mut bindings::ib_ucontext) {}

    /// The `alloc_pd` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn alloc_pd(
        pd: *mut bindings::ib_pd,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: As the module says. Without `udata` the consumer is in the kernel.
        let result = unsafe {
            let dev = Device::<D>::from_raw((*pd).device);
            let memory = udata.is_null().then(|| KernelMemory::new());
            let mut data = Udata::new(udata, None);
            noio_in_kernel(udata, || {
                D::alloc_pd(dev, data.as_mut(), NewPd::new(memory))
            })
            .map(|data| PdObject::<D>::init(pd, data))
        };
        errno(result)
    }

    /// The `dealloc_pd` operation.
    ///
    /// # Safety
    ///
    /// Only to be called by the core; see [`super`].
    pub(super) unsafe extern "C" fn dealloc_pd(
        pd: *mut bindings::ib_pd,
        _udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: As the module says.
        if let Err(e) = D::dealloc_pd(unsafe { PdObject::<D>::state(pd) }) {
            return e.to_errno();
        }
        // SAFETY: The core frees it when this returns.
        drop(unsafe { PdObject::<D>::take(pd) });
        0
    }
}
