// SPDX-License-Identifier: GPL-2.0

//! Requests from processes: the data that a driver's library adds to a verb, and the response to
//! it.

use crate::{
    object::{Object, Shares},
    owner::Consumer,
    ring::{mem::MmapHandle, SharedMem},
    types::DriverTypes,
};
use core::{ffi::c_void, marker::PhantomData};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    uaccess::{UserPtr, UserSlice},
};
use rdma_bindings as bindings;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A user context (`struct ib_ucontext`).
pub(crate) type ContextObject<D> = Object<bindings::ib_ucontext, Arc<<D as DriverTypes>::Context>>;

/// The driver's data of a verb that a process calls (`struct ib_udata`).
pub struct Udata<'a, D: DriverTypes> {
    udata: *mut bindings::ib_udata,
    /// The user context, unless the verb is making it.
    context: Option<*mut bindings::ib_ucontext>,
    /// The shared memory of the object that the verb makes, if it makes one.
    shares: Option<&'a mut Shares>,
    _driver: PhantomData<fn(D)>,
}

impl<'a, D: DriverTypes> Udata<'a, D> {
    /// Makes it for the data of a verb; `None` if `udata` is null, as it is for a kernel consumer.
    ///
    /// # Safety
    ///
    /// `udata` must be null, or that of a verb in progress during `'a`, for a device of driver `D`,
    /// with a complete user context. `shares` must go with an object of that context.
    pub(crate) unsafe fn new(
        udata: *mut bindings::ib_udata,
        shares: Option<&'a mut Shares>,
    ) -> Option<Self> {
        if udata.is_null() {
            return None;
        }
        // SAFETY: By the contract of this function `udata` is that of a verb in progress.
        let context = unsafe { bindings::rdma_udata_ucontext(udata) };
        Some(Self {
            udata,
            context: (!context.is_null()).then_some(context),
            shares,
            _driver: PhantomData,
        })
    }

    /// Makes it for the data of the verb that makes the user context.
    ///
    /// # Safety
    ///
    /// `udata` must be that of the verb in progress during `'a`.
    pub(crate) unsafe fn without_context(udata: *mut bindings::ib_udata) -> Self {
        Self {
            udata,
            context: None,
            shares: None,
            _driver: PhantomData,
        }
    }

    /// The process' context. Errors: `EINVAL` in `alloc_context`, where there is none yet.
    pub fn context(&self) -> Result<&Arc<D::Context>> {
        let context = self.context.ok_or(EINVAL)?;
        // SAFETY: By the contract of `new` the context is complete. It stays until the verb has
        // ended.
        Ok(unsafe { ContextObject::<D>::state(context) })
    }

    /// The request of the library, all of a `T`. A longer one is accepted if the rest is zero.
    /// Errors: `EINVAL` if it is too short, `EOPNOTSUPP` if the rest is not zero, `EFAULT`.
    /// Context: sleeping.
    pub fn request<T: FromBytes + IntoBytes>(&self) -> Result<T> {
        let mut request = T::new_zeroed();
        let bytes = request.as_mut_bytes();
        let (buf, len) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: The verb is in progress, and `buf` is valid for writes of `len` bytes.
        to_result(unsafe { bindings::_ib_copy_validate_udata_in(self.udata, buf, len, len) })?;
        Ok(request)
    }

    /// The number of bytes of request that the library has sent.
    pub fn in_len(&self) -> usize {
        // SAFETY: The verb is in progress, so its `udata` is valid.
        unsafe { (*self.udata).inlen }
    }

    /// The number of bytes of response that the library has room for.
    pub fn out_len(&self) -> usize {
        // SAFETY: The verb is in progress, so its `udata` is valid.
        unsafe { (*self.udata).outlen }
    }

    /// Errors: `EINVAL` if the library has room for less than `len` bytes of response.
    pub fn require_out(&self, len: usize) -> Result {
        if self.out_len() < len {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Writes the response to the library, as much as it has room for, and zeroes further room.
    /// Errors: `EFAULT`. Context: sleeping.
    pub fn respond<T: IntoBytes + Immutable>(&mut self, response: &T) -> Result {
        let bytes = response.as_bytes();
        // SAFETY: The verb is in progress, and the bytes are valid for reads.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.udata, bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Writes `value` to where the library's request has asked for it, in a verb whose answer has
    /// no room for the driver's part. Errors: `EFAULT`. Context: sleeping.
    pub fn write_to<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result {
        let bytes = value.as_bytes();
        // The verb is called by a thread of the process.
        let to = UserPtr::from_addr(address.try_into().map_err(|_| EFAULT)?);
        UserSlice::new(to, bytes.len()).writer().write_slice(bytes)
    }

    /// Lets the process map `mem`, until the object that is being created is destroyed, or its
    /// creation fails. Returns the offset for `mmap()`, which is neither 0 nor 0x90000. Errors:
    /// `ENOMEM`; `ENOSPC` for more than four of one object; `EINVAL` if no object is being created,
    /// or for the memory of a kernel consumer. Context: sleeping.
    pub fn share(&mut self, mem: &SharedMem) -> Result<u64> {
        // The lists in the ring of a kernel consumer name memory of the kernel.
        if mem.consumer() != Consumer::Process {
            return Err(EINVAL);
        }
        let context = self.context.ok_or(EINVAL)?;
        let shares = self.shares.as_mut().ok_or(EINVAL)?;
        // SAFETY: By the contract of `new` the context is complete, and of a device with this
        // crate's operations. The object that has the shares is destroyed before its context is.
        let handle = unsafe { MmapHandle::insert(context, mem)? };
        let offset = handle.offset();
        shares.add(handle)?;
        Ok(offset)
    }
}
