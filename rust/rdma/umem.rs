// SPDX-License-Identifier: GPL-2.0

//! Memory that a process registers, pinned for RDMA: its own, or a dma-buf.

use crate::{
    blocks::{Blocks, Run},
    device::reference::DeviceRef,
    dma_buf::DmaBuf,
    span::{Memory, Span},
    Access,
};
use core::{iter, ptr::NonNull};
use kernel::{
    error::from_err_ptr,
    page::{PAGE_MASK, PAGE_SIZE},
    prelude::*,
};
use kext::defer::Deferred;
use rdma_bindings as bindings;

/// Pinned memory of a process, and the addresses of its pages: a C `struct ib_umem`, or a dma-buf.
///
/// The pages stay pinned until this is dropped or [`Self::release`]d, whatever the process does.
/// Any context may drop it; a workqueue then releases the pages.
pub struct Umem(Deferred<Pinned>);

enum Source {
    /// INVARIANT: A umem that this object owns.
    Process(NonNull<bindings::ib_umem>),
    DmaBuf {
        _buf: DmaBuf,
    },
}

struct Pinned {
    source: Source,
    blocks: Blocks,
    writable: bool,
    /// The umem refers to the device, and may be released after the device was unregistered.
    _device: DeviceRef,
}

// SAFETY: Pinned pages belong to no thread, and any thread may call `ib_umem_release()`.
unsafe impl Send for Pinned {}
// SAFETY: Shared references only read the table and fields that do not change.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Source::Process(umem) = &self.source {
            // SAFETY: The umem is this object's, and all users of its pages have borrowed that.
            // `_device`, the device that the umem refers to, is dropped after this.
            unsafe { bindings::ib_umem_release(umem.as_ptr()) };
        }
    }
}

impl Umem {
    //= 5040-8.1.2-4, 5041-8.3.2-5
    /// Pins `len` bytes at `addr` of the current process, for writing if `access` has any right to
    /// write. Wraps `ib_umem_get_va()`. Errors: `EFAULT`, `EINVAL`, `ENOMEM` (also beyond
    /// `RLIMIT_MEMLOCK`), `EPERM`, `EOPNOTSUPP`. Context: sleeping.
    ///
    /// # Safety
    ///
    /// `device` must be alive during the call.
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
        // SAFETY: By the contract of this function the device is alive. The function checks the
        // address.
        let umem = from_err_ptr(unsafe {
            bindings::ib_umem_get_va(device, addr, len, access.bits() as i32)
        })?;
        let umem = NonNull::new(umem).ok_or(ENOMEM)?;
        let mut pinned = Pinned {
            source: Source::Process(umem),
            blocks: Blocks::EMPTY,
            writable: access.is_writable(),
            // SAFETY: By the contract of this function the device is alive.
            _device: unsafe { DeviceRef::new(device) },
        };
        pinned.blocks = Blocks::new(|| runs(umem))?;
        if pinned.blocks.len() != len as u64 {
            return Err(EINVAL);
        }
        Ok(Self(Deferred::new(pinned)?))
    }

    /// Maps `len` bytes at `offset` of the dma-buf that the current process has as `fd`, for
    /// writing if `access` has any right to write. Errors: those of [`DmaBuf::map`]; `ENOMEM`.
    /// Context: sleeping.
    ///
    /// # Safety
    ///
    /// `device` must be alive during the call.
    pub(crate) unsafe fn map(
        device: *mut bindings::ib_device,
        fd: i32,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Result<Self> {
        if len == 0 {
            return Err(EINVAL);
        }
        let writable = access.is_writable();
        // SAFETY: By the contract of this function the device is alive.
        let _device = unsafe { DeviceRef::new(device) };
        // SAFETY: `_device` keeps it, and is dropped after the buffer, here and as a part of
        // `Pinned`.
        let (buf, addr) = unsafe { DmaBuf::map(device, fd, (offset, len), writable) }?;
        let pinned = Pinned {
            blocks: Blocks::new(|| iter::once(Run { addr, len }))?,
            source: Source::DmaBuf { _buf: buf },
            writable,
            _device,
        };
        Ok(Self(Deferred::new(pinned)?))
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.0.blocks.len()
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of a process' pages that are pinned.
    pub fn pages(&self) -> u64 {
        let skip = match self.address() {
            Some(address) => address & !PAGE_MASK as u64,
            // The exporter has pinned them.
            None => return 0,
        };
        (self.len() + skip).div_ceil(PAGE_SIZE as u64)
    }

    /// The address of the memory in the process; `None` for a dma-buf.
    pub fn address(&self) -> Option<u64> {
        match &self.0.source {
            // SAFETY: `self` owns the umem, and this field does not change.
            Source::Process(umem) => Some(unsafe { (*umem.as_ptr()).address as u64 }),
            Source::DmaBuf { .. } => None,
        }
    }

    /// Whether the memory was pinned for writing.
    pub fn is_writable(&self) -> bool {
        self.0.writable
    }

    /// Releases the pages now. Context: sleeping.
    pub fn release(self) {
        self.0.drop_now();
    }
}

/// The contiguous runs of the memory, in its order. The pages of a scatterlist's entry are
/// neighbours in physical memory, and so in the kernel's linear mapping: 64-bit kernels have no
/// high memory, and memory outside of that mapping is never pinned.
fn runs(umem: NonNull<bindings::ib_umem>) -> impl Iterator<Item = Run> {
    let umem = umem.as_ptr();
    // SAFETY: The caller owns the umem, and these fields do not change.
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
        // SAFETY: `sg` is one of the `orig_nents` entries, and they are valid as long as the
        // umem.
        let (addr, bytes) = unsafe {
            next = bindings::sg_next(sg);
            (bindings::sg_virt(sg) as usize, u64::from((*sg).length))
        };
        // Only the first entry begins before the memory does, by less than a page.
        let offset = skip.min(bytes);
        skip -= offset;
        let len = (bytes - offset).min(left);
        left -= len;
        Some(Run {
            addr: addr + offset as usize,
            len,
        })
    })
}

impl Memory for Umem {
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        let (addr, len) = self.0.blocks.find(offset, len)?;
        // SAFETY: The bytes are in one run, or in several that are neighbours. The pages are pinned
        // (those of a dma-buf stay where its exporter has mapped them) and mapped as long as `self`
        // is borrowed. `writable` is set only if they were pinned, or mapped, for writing. Nobody
        // has Rust references to them.
        Ok(unsafe { Span::new(addr, len, self.0.writable) })
    }
}

const _: () = assert!(PAGE_SIZE.is_power_of_two());
