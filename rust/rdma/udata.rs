// SPDX-License-Identifier: GPL-2.0

//! Requests from processes: what a driver's library adds to a verb, and gets back.

use crate::{
    object::{ContextObject, Shares},
    ring::{mem::MmapHandle, SharedMem},
    Driver,
};
use core::{ffi::c_void, marker::PhantomData};
use kernel::{error::to_result, prelude::*, sync::Arc};
use rdma_bindings as bindings;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The driver's data of a verb that a process calls (`struct ib_udata`).
pub struct Udata<'a, D: Driver> {
    udata: *mut bindings::ib_udata,
    /// The user context, unless it is just being made.
    context: Option<*mut bindings::ib_ucontext>,
    /// Where shared memory is noted, for verbs that make an object.
    shares: Option<&'a mut Shares>,
    _driver: PhantomData<fn(D)>,
}

impl<'a, D: Driver> Udata<'a, D> {
    /// Null `udata`, that is, a kernel consumer, gives `None`.
    ///
    /// # Safety
    ///
    /// `udata` is null or that of a verb in progress during `'a`, for a device of driver `D`,
    /// whose user context is complete. `shares` go with an object of that context.
    pub(crate) unsafe fn new(
        udata: *mut bindings::ib_udata,
        shares: Option<&'a mut Shares>,
    ) -> Option<Self> {
        if udata.is_null() {
            return None;
        }
        // SAFETY: By the requirement.
        let context = unsafe { bindings::rdma_udata_ucontext(udata) };
        Some(Self {
            udata,
            context: (!context.is_null()).then_some(context),
            shares,
            _driver: PhantomData,
        })
    }

    /// For the verb that makes the user context.
    ///
    /// # Safety
    ///
    /// `udata` is that of the verb in progress during `'a`.
    pub(crate) unsafe fn without_context(udata: *mut bindings::ib_udata) -> Self {
        Self {
            udata,
            context: None,
            shares: None,
            _driver: PhantomData,
        }
    }

    /// The process' context. Fails with `EINVAL` in `alloc_context`, where there is none yet.
    pub fn context(&self) -> Result<&Arc<D::Context>> {
        let context = self.context.ok_or(EINVAL)?;
        // SAFETY: The context is complete, and stays as long as the verb that `self` is for.
        Ok(unsafe { ContextObject::<D>::state(context) })
    }

    /// The request that the library has added: all of a `T`. A longer one is accepted if the rest
    /// is zero. Fails with `EINVAL` (too short), `EOPNOTSUPP` (the rest is not zero), `EFAULT`.
    /// Context: sleeping.
    pub fn request<T: FromBytes + IntoBytes>(&self) -> Result<T> {
        let mut request = T::new_zeroed();
        let bytes = request.as_mut_bytes();
        let (buf, len) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: The verb is in progress; `buf` is valid for writes of `len` bytes.
        to_result(unsafe { bindings::_ib_copy_validate_udata_in(self.udata, buf, len, len) })?;
        Ok(request)
    }

    /// How many bytes of response the library has room for.
    pub fn out_len(&self) -> usize {
        // SAFETY: The verb is in progress.
        unsafe { (*self.udata).outlen }
    }

    /// Fails with `EINVAL` if the library has room for less than `len` bytes of response.
    pub fn require_out(&self, len: usize) -> Result {
        if self.out_len() < len {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Responds to the library: as much as it has room for; more room is zeroed. Fails with
    /// `EFAULT`. Context: sleeping.
    pub fn respond<T: IntoBytes + Immutable>(&mut self, response: &T) -> Result {
        let bytes = response.as_bytes();
        // SAFETY: The verb is in progress; the bytes are valid for reads.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.udata, bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Lets the process map `mem`, until the object that is being created is destroyed, or its
    /// creation fails. Returns the offset for `mmap()`, which is not 0 nor 0x90000. Fails with
    /// `ENOMEM`, `ENOSPC` (more than four for one object), and `EINVAL` if nothing is being
    /// created. Context: sleeping.
    pub fn share(&mut self, mem: &SharedMem) -> Result<u64> {
        let context = self.context.ok_or(EINVAL)?;
        let shares = self.shares.as_mut().ok_or(EINVAL)?;
        // SAFETY: The context is complete, and of a device of this crate. The object that owns
        // the shares is destroyed before its context is.
        let handle = unsafe { MmapHandle::insert(context, mem)? };
        let offset = handle.offset();
        shares.add(handle)?;
        Ok(offset)
    }
}
