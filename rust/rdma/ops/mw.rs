// SPDX-License-Identifier: GPL-2.0

//! Operations on memory windows.

use super::{errno, Ops};
use crate::{
    device::Device,
    driver::{Driver, MrOps},
    errno::unsupported,
    object::{
        mr::{MwObject, MwType},
        pd::PdObject,
    },
    udata::Udata,
};
use kernel::prelude::*;
use rdma_bindings as bindings;

impl<D: Driver> Ops<D> {
    /// The `alloc_mw` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn alloc_mw(
        mw: *mut bindings::ib_mw,
        udata: *mut bindings::ib_udata,
    ) -> i32 {
        // SAFETY: `mw` is being created by the core, which has set its domain and its type.
        errno(unsafe { Self::make_mw(mw, udata) })
    }

    /// The rest of `alloc_mw`.
    ///
    /// # Safety
    ///
    /// Only `alloc_mw` may call this, with its parameters.
    unsafe fn make_mw(mw: *mut bindings::ib_mw, udata: *mut bindings::ib_udata) -> Result {
        // SAFETY: By the contract of this function the fields are set. The core has locked the
        // domain, which was created, against its destruction.
        let (dev, pd, mw_type) = unsafe {
            (
                Device::<D>::from_raw((*mw).device),
                PdObject::<D>::state((*mw).pd),
                (*mw).type_,
            )
        };
        let mw_type = match mw_type {
            bindings::ib_mw_type_IB_MW_TYPE_1 => MwType::One,
            bindings::ib_mw_type_IB_MW_TYPE_2 => MwType::Two,
            _ => return Err(unsupported()),
        };
        // SAFETY: `udata` is null or that of the verb in progress.
        let udata = unsafe { Udata::new(udata, None) }.ok_or_else(unsupported)?;
        let new = D::Mr::window(dev, pd, mw_type, &udata)?;
        // SAFETY: `mw` is being created by the core, which has allocated as many bytes as asked
        // for.
        unsafe {
            (*mw).rkey = new.rkey;
            MwObject::<D>::init(mw, new.mr);
        }
        Ok(())
    }

    /// The `dealloc_mw` operation.
    ///
    /// # Safety
    ///
    /// Only the core may call this; see [`super`].
    pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut bindings::ib_mw) -> i32 {
        // SAFETY: `mw` has its state, as it was created and is destroyed here.
        if let Err(e) = unsafe { MwObject::<D>::state(mw) }.dereg() {
            return e.to_errno();
        }
        // SAFETY: `mw` has its state, which is taken once, as the core frees the window when this
        // succeeds.
        drop(unsafe { MwObject::<D>::take(mw) });
        0
    }
}
