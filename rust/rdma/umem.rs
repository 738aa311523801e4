// SPDX-License-Identifier: GPL-2.0

//! User memory that is pinned for RDMA.

use crate::{
    blocks::{Blocks, OwnedWorkItem},
    defer::Deferred,
    device::handle::DeviceRef,
    span::{Memory, Span},
    Access,
};
use core::{iter, ptr::NonNull};
use kernel::{
    error::from_err_ptr,
    page::{PAGE_MASK, PAGE_SIZE},
    prelude::*,
};
use rdma_bindings as bindings;

/// Pinned memory of a process: the C `struct ib_umem`, and where its pages are.
///
/// The pages stay, and stay what they are, until this is dropped or [`Self::release`]d, whatever
/// the process does. It can be dropped in any context; the pages are then given back by a
/// workqueue.
pub struct Umem(Deferred<Pinned>);

struct Pinned {
    umem: NonNull<bindings::ib_umem>,
    blocks: Blocks,
    writable: bool,
    /// The umem refers to the device, and may be released after the device was unregistered.
    _device: DeviceRef,
}

// SAFETY: Pinned pages belong to no thread; `ib_umem_release` may be called by any.
unsafe impl Send for Pinned {}
// SAFETY: Shared access only reads the table.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: The umem is this one's, and all that could use its pages has borrowed it. The
        // device that it refers to is dropped after this.
        unsafe { bindings::ib_umem_release(self.umem.as_ptr()) };
    }
}

impl Umem {
    /// Pins `len` bytes at `addr` of the current process, for writing if `access` allows any kind
    /// of it. Wraps `ib_umem_get_va()`. Fails with `EFAULT`, `EINVAL`, `ENOMEM` (also beyond
    /// `RLIMIT_MEMLOCK`), `EPERM`, `EOPNOTSUPP`. Context: sleeping.
    ///
    /// # Safety
    ///
    /// `device` is alive during the call.
    pub(crate) unsafe fn pin(
        device: *mut bindings::ib_device,
        addr: u64,
        len: u64,
        access: Access,
    ) -> Result<Self> {
        let (addr, len) = (addr.try_into()?, len.try_into()?);
        if len == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The device is alive; the address is checked by the function.
        let umem = from_err_ptr(unsafe {
            bindings::ib_umem_get_va(device, addr, len, access.bits() as i32)
        })?;
        let mut pinned = Pinned {
            umem: NonNull::new(umem).ok_or(ENOMEM)?,
            blocks: Blocks::EMPTY,
            writable: access.is_writable(),
            // SAFETY: The device is alive.
            _device: unsafe { DeviceRef::new(device) },
        };
        pinned.blocks = Blocks::new(|| pinned.runs())?;
        if pinned.blocks.len() != len as u64 {
            return Err(EINVAL);
        }
        Ok(Self(Deferred::new(pinned)?))
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.0.blocks.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address in the process.
    pub fn address(&self) -> u64 {
        // SAFETY: The umem is alive, and this field does not change.
        unsafe { (*self.0.umem.as_ptr()).address as u64 }
    }

    /// Whether it was pinned for writing.
    pub fn is_writable(&self) -> bool {
        self.0.writable
    }

    /// Runs of up to `1 << block_shift()` bytes are contiguous: the page size, or more with huge
    /// pages.
    pub fn block_shift(&self) -> u32 {
        self.0.blocks.shift()
    }

    /// Gives the pages back now. Context: sleeping.
    pub fn release(self) {
        self.0.drop_now();
    }
}

impl Pinned {
    /// The runs of the memory, in its order. The pages of an entry of the scatterlist are
    /// neighbours physically, and so in the kernel's linear mapping: 64-bit kernels have no high
    /// memory, and memory that is not in that mapping is never pinned.
    fn runs(&self) -> impl Iterator<Item = OwnedWorkItem> + '_ {
        let umem = self.umem.as_ptr();
        // SAFETY: The umem is alive, and these fields do not change.
        let (address, length, sgt) = unsafe {
            (
                (*umem).address,
                (*umem).length as u64,
                (*umem).sgt_append.sgt,
            )
        };
        let mut skip = (address & !PAGE_MASK) as u64;
        let mut left = length;
        let mut count = sgt.orig_nents;
        let mut next = sgt.sgl;
        iter::from_fn(move || {
            if count == 0 || left == 0 || next.is_null() {
                return None;
            }
            let sg = next;
            count -= 1;
            // SAFETY: There are `orig_nents` entries, and `sg` is one of them.
            let (addr, bytes) = unsafe {
                next = bindings::sg_next(sg);
                (bindings::sg_virt(sg) as usize, u64::from((*sg).length))
            };
            // Only the first entry begins before the memory does, by less than a page.
            let offset = skip.min(bytes);
            skip -= offset;
            let len = (bytes - offset).min(left);
            left -= len;
            Some(OwnedWorkItem {
                addr: addr + offset as usize,
                len,
            })
        })
    }
}

impl Memory for Umem {
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        let (addr, len) = self.0.blocks.find(offset, len)?;
        // SAFETY: The bytes are in one of the runs, or in several that are neighbours. The pages
        // are pinned and mapped as long as `self` is borrowed. Writing is limited to pages that
        // were pinned for it.
        Ok(unsafe { Span::new(addr, len, self.0.writable) })
    }
}

const _: () = assert!(PAGE_SIZE.is_power_of_two());
