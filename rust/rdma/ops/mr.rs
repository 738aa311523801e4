// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions.

use super::{errno, Ops};
use crate::{
    attr::Access,
    device::Device,
    driver::{Driver, MrOps},
    errno::unsupported,
    local::AllMemory,
    object::{
        mr::{DmaBufMr, MrObject, NewMr, Rereg, UserMemory, UserMr},
        page_list::{MrType, SgMap},
        pd::PdObject,
    },
    owner::Consumer,
    restrack::Details,
    udata::Udata,
};
use kernel::{error::from_err_ptr, prelude::*, sync::Arc};
use kext::noio::noio;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The C structure for a region that the driver has made, or an error pointer.
    fn mr(made: Result<NewMr<D::Mr>>, consumer: Consumer) -> *mut bindings::ib_mr {
        let result = made.and_then(|new| {
            let data = new.mr.clone();
            MrObject::<D>::create(new, consumer).inspect_err(|_| {
                // The driver ends the region as if the consumer had destroyed it at once.
                let _ = data.dereg();
            })
        });
        result.unwrap_or_else(Error::to_ptr)
    }

    /// The device and the driver's part of the domain that a region is made in.
    ///
    /// # Safety
    ///
    /// `pd` must have been created, and must not be destroyed during `'a`. The consumer sees to
    /// that for the time of a region's creation; for a process the core does, by its locks.
    unsafe fn parent<'a>(pd: *mut bindings::ib_pd) -> (&'a Device<D>, &'a Arc<D::Pd>) {
        // SAFETY: By the contract of this function `pd` has its state. Its device has one, too, as
        // it has objects.
        unsafe {
            (
                Device::<D>::from_raw((*pd).device),
                PdObject::<D>::state(pd),
            )
        }
    }

    /// The `get_dma_mr` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn get_dma_mr(
        pd: *mut bindings::ib_pd,
        access: i32,
    ) -> *mut bindings::ib_mr {
        // SAFETY: By the contract of `get_dma_mr`.
        let (dev, pd) = unsafe { Self::parent(pd) };
        let access = Access::from_bits(access as u32);
        // SAFETY: The core asks for such a region for a kernel consumer's protection domain only.
        // As the device has a local DMA key, it does so only if the consumer wants a key for all
        // memory.
        let memory = unsafe { AllMemory::new() };
        let made = noio(|| D::Mr::of_kernel(dev, pd, access, memory));
        Self::mr(made, Consumer::Kernel)
    }

    /// The `reg_user_mr` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn reg_user_mr(
        pd: *mut bindings::ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        dmah: *mut bindings::ib_dmah,
        udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        if !dmah.is_null() {
            return unsupported().to_ptr();
        }
        // SAFETY: `udata` is null or that of the verb in progress.
        let Some(mut udata) = (unsafe { Udata::new(udata, None) }) else {
            return unsupported().to_ptr();
        };
        // SAFETY: By the contract of `reg_user_mr`.
        let (dev, pd) = unsafe { Self::parent(pd) };
        let request = UserMr {
            start,
            length,
            iova,
            access: Access::from_bits(access as u32),
            device: dev.as_raw(),
        };
        let made = D::Mr::of_process(dev, pd, &request, &mut udata);
        Self::mr(made, Consumer::Process)
    }

    /// The `reg_user_mr_dmabuf` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut bindings::ib_pd,
        offset: u64,
        length: u64,
        iova: u64,
        fd: i32,
        access: i32,
        dmah: *mut bindings::ib_dmah,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut bindings::ib_mr {
        if !dmah.is_null() {
            return unsupported().to_ptr();
        }
        // SAFETY: By the contract of `reg_user_mr_dmabuf`.
        let (dev, pd) = unsafe { Self::parent(pd) };
        let request = DmaBufMr {
            offset,
            length,
            iova,
            access: Access::from_bits(access as u32),
            fd,
            device: dev.as_raw(),
        };
        let new = Self::mr(D::Mr::of_dma_buf(dev, pd, &request), Consumer::Process);
        if from_err_ptr(new).is_ok() {
            // The core sets these for other regions of processes, but not here.
            // SAFETY: The region is new, and nobody else has it yet.
            unsafe {
                (*new).iova = iova;
                (*new).length = length;
            }
        }
        new
    }

    /// The `rereg_user_mr` operation. It always makes a new region, with new keys: no access by an
    /// old key that is under way can reach what the region has become.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn rereg_user_mr(
        mr: *mut bindings::ib_mr,
        flags: i32,
        start: u64,
        length: u64,
        iova: u64,
        access: i32,
        pd: *mut bindings::ib_pd,
        _udata: *mut bindings::ib_udata,
    ) -> *mut bindings::ib_mr {
        let has = |flag| flags as u32 & flag != 0;
        let memory = has(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS).then_some(UserMemory {
            start,
            length,
            iova,
        });
        let access = has(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS)
            .then_some(Access::from_bits(access as u32));
        // SAFETY: `pd` is the domain that the region is to be in, which is its own if it does not
        // change. The core has locked it against its destruction.
        let (dev, pd) = unsafe { Self::parent(pd) };
        // SAFETY: `mr` comes from `MrObject::create`, and the core has locked it against its
        // destruction.
        let data = unsafe { MrObject::<D>::data(mr) };
        let request = Rereg {
            memory,
            access,
            device: dev.as_raw(),
        };
        let new = Self::mr(data.rereg(dev, pd, &request), Consumer::Process);
        if from_err_ptr(new).is_ok() {
            let (iova, length) = match memory {
                Some(memory) => (memory.iova, memory.length),
                // SAFETY: `mr` is locked, see above.
                None => unsafe { ((*mr).iova, (*mr).length) },
            };
            // The core sets these for a region that a process registers, but not here.
            // SAFETY: The region is new, and nobody else has it yet.
            unsafe {
                (*new).iova = iova;
                (*new).length = length;
            }
        }
        new
    }

    /// The `alloc_mr` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn alloc_mr(
        pd: *mut bindings::ib_pd,
        mr_type: bindings::ib_mr_type,
        max: u32,
    ) -> *mut bindings::ib_mr {
        let Some(mr_type) = MrType::from_c(mr_type) else {
            return unsupported().to_ptr();
        };
        // SAFETY: By the contract of `alloc_mr`.
        let (dev, pd) = unsafe { Self::parent(pd) };
        let made = noio(|| D::Mr::alloc(dev, pd, mr_type, max));
        Self::mr(made, Consumer::Kernel)
    }

    /// The `map_mr_sg` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn map_mr_sg(
        mr: *mut bindings::ib_mr,
        sg: *mut bindings::scatterlist,
        nents: i32,
        offset: *mut u32,
    ) -> i32 {
        // SAFETY: `mr` comes from `MrObject::create`, and is not destroyed meanwhile. The other
        // parameters are those of this operation, and valid until it returns.
        let (data, mut map) =
            unsafe { (MrObject::<D>::data(mr), SgMap::new(mr, sg, nents, offset)) };
        match data.map_sg(&mut map) {
            Ok(()) => map.mapped(),
            Err(e) => e.to_errno(),
        }
    }

    /// The `fill_res_mr_entry` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn fill_res_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut bindings::ib_mr,
    ) -> i32 {
        // SAFETY: `mr` comes from `MrObject::create`: the core got it from the list of resources,
        // where it is from the end of its creation on. It holds a reference to the entry there, for
        // whose end the destruction waits before it calls `dereg_mr`.
        let data = unsafe { MrObject::<D>::data(mr) };
        // SAFETY: The core is writing `msg`.
        errno(unsafe { Details::write(msg, |details| data.describe(details)) })
    }

    /// The `dereg_mr` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn dereg_mr(
        mr: *mut bindings::ib_mr,
        _udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `mr` comes from `MrObject::create`, and is destroyed here.
        if let Err(e) = unsafe { MrObject::<D>::data(mr) }.dereg() {
            return e.to_errno();
        }
        // SAFETY: `mr` comes from `MrObject::create`. The core does not use it any more when this
        // succeeds, nor does its consumer.
        unsafe { MrObject::<D>::free(mr) };
        0
    }
}
