// SPDX-License-Identifier: GPL-2.0

//! Buffers that drivers share by a file descriptor (dma-buf), mapped for copies by a processor.
//!
//! A device that transfers by DMA attaches itself to the buffer and gets bus addresses. The devices
//! of this crate copy. So they have the exporter map the buffer into the kernel's address space.
//! That alone does not keep the memory where it is: some exporters move a buffer that is mapped. So
//! the device attaches itself nevertheless, and has the exporter pin the buffer, in system memory,
//! before it is mapped. An exporter that cannot pin does not move a buffer that is attached and
//! mapped.

use crate::errno::unsupported;
use core::ptr::{null_mut, NonNull};
use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
};
use rdma_bindings as bindings;

/// What processors do with a buffer (`enum dma_data_direction`). The Rust type of the C enumeration
/// is a number in some kernels and a structure in others.
type Direction = bindings::dma_data_direction;

/// They read and write it: `DMA_BIDIRECTIONAL`.
// SAFETY: The type is that of a C enumeration, of which 0, this constant, is a value.
const BOTH_WAYS: Direction = unsafe { core::mem::transmute::<u32, Direction>(0) };

/// They only read it: `DMA_FROM_DEVICE`.
// SAFETY: As above; this constant is 2.
const READ_ONLY: Direction = unsafe { core::mem::transmute::<u32, Direction>(2) };

/// An importer that pins: it needs not be told of moves, and has no use for the memory of devices.
/// The kernel takes those that have operations for such, and only these may pin.
static IMPORTER: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    allow_peer2peer: false,
    invalidate_mappings: None,
};

/// A reference to a buffer (`struct dma_buf`).
///
/// INVARIANT: This object has one.
struct Buffer(NonNull<bindings::dma_buf>);

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is a reference to put.
        unsafe { bindings::dma_buf_put(self.0.as_ptr()) };
    }
}

/// A buffer that stays where it is while it is mapped.
///
/// INVARIANT: The attachment is one to the buffer, and `dma_buf_pin()` has succeeded for it.
struct PinnedBuffer {
    attach: NonNull<bindings::dma_buf_attachment>,
    buf: Buffer,
}

impl PinnedBuffer {
    /// Pins `buf` for `device`. Context: sleeping. Errors: those of the exporter.
    ///
    /// # Safety
    ///
    /// `device` must stay until this is dropped.
    unsafe fn new(device: *mut bindings::ib_device, buf: Buffer) -> Result<Self> {
        let raw = buf.0.as_ptr();
        // SAFETY: `raw` is a buffer, and by the contract of this function the device stays. The
        // operations are static.
        let attach = from_err_ptr(unsafe {
            let dev = (&raw mut (*device).__bindgen_anon_1.dev).cast();
            bindings::dma_buf_dynamic_attach(raw, dev, &IMPORTER, null_mut())
        })?;
        // SAFETY: The attachment was just made of this buffer, whose lock is held for the call that
        // wants it.
        let result = to_result(unsafe {
            bindings::rdma_dma_buf_lock(raw);
            let result = bindings::dma_buf_pin(attach);
            bindings::rdma_dma_buf_unlock(raw);
            result
        });
        if let Err(e) = result {
            // SAFETY: Nobody else has the attachment.
            unsafe { bindings::dma_buf_detach(raw, attach) };
            return Err(e);
        }
        // INVARIANT: The call above has succeeded.
        Ok(Self {
            attach: NonNull::new(attach).ok_or(EINVAL)?,
            buf,
        })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let (raw, attach) = (self.buf.0.as_ptr(), self.attach.as_ptr());
        // SAFETY: By the type invariant the attachment is one to the buffer, and there is a pin to
        // undo. The lock is held for the call that wants it. Nobody uses the attachment afterwards.
        unsafe {
            bindings::rdma_dma_buf_lock(raw);
            bindings::dma_buf_unpin(attach);
            bindings::rdma_dma_buf_unlock(raw);
            bindings::dma_buf_detach(raw, attach);
        }
    }
}

/// A pinned and mapped buffer. It is dropped in sleeping context.
///
/// INVARIANT: `map` is a mapping of the buffer, in system memory.
pub(crate) struct DmaBuf {
    map: bindings::iosys_map,
    /// What the exporter was told that processors do with the buffer.
    begun: Option<Direction>,
    pinned: PinnedBuffer,
}

// SAFETY: Any thread may unmap, unpin and put a buffer.
unsafe impl Send for DmaBuf {}
// SAFETY: Shared references only read fields that do not change.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// Pins and maps, for `device`, the buffer that the file descriptor `fd` of the current process
    /// stands for; also for writing if `writable`. Returns it, and the kernel address of the `len`
    /// bytes at `offset`. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EBADF`; `EINVAL` for another kind of file, and if the buffer has not as many bytes;
    /// `EOPNOTSUPP` for a buffer that cannot be mapped, and for memory of a device; those of the
    /// exporter.
    ///
    /// # Safety
    ///
    /// `device` must stay until this is dropped.
    pub(crate) unsafe fn map(
        device: *mut bindings::ib_device,
        fd: i32,
        (offset, len): (u64, u64),
        writable: bool,
    ) -> Result<(Self, usize)> {
        // SAFETY: The function checks the descriptor.
        let buf = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: The function has returned a reference.
        let buf = Buffer(NonNull::new(buf).ok_or(EBADF)?);
        let raw = buf.0.as_ptr();
        // Before the exporter moves anything for this call.
        // SAFETY: `raw` is a buffer, whose size does not change, nor do its operations.
        let (size, can_map) = unsafe { ((*raw).size as u64, (*(*raw).ops).vmap.is_some()) };
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(EINVAL);
        }
        if !can_map {
            return Err(unsupported());
        }
        // SAFETY: By the contract of this function.
        let pinned = unsafe { PinnedBuffer::new(device, buf) }?;
        let mut map: bindings::iosys_map = pin_init::zeroed();
        // SAFETY: `raw` is a buffer, as `pinned` has a reference. `map` is valid for writes.
        to_result(unsafe { bindings::dma_buf_vmap_unlocked(raw, &mut map) })?;
        if map.is_iomem {
            // The copies of `kext::copy` are for system memory.
            // SAFETY: The mapping was just made.
            unsafe { bindings::dma_buf_vunmap_unlocked(raw, &mut map) };
            return Err(unsupported());
        }
        // INVARIANT: The mapping was made above, and is not of I/O memory.
        let mut this = Self {
            map,
            begun: None,
            pinned,
        };
        let direction = match writable {
            true => BOTH_WAYS,
            false => READ_ONLY,
        };
        // SAFETY: `raw` is a buffer, see above.
        to_result(unsafe { bindings::dma_buf_begin_cpu_access(raw, direction) })?;
        this.begun = Some(direction);
        // SAFETY: By the type invariant `map` has `vaddr`.
        let base = unsafe { this.map.__bindgen_anon_1.vaddr } as usize;
        let addr = base.checked_add(offset.try_into()?).ok_or(EINVAL)?;
        Ok((this, addr))
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        let raw = self.pinned.buf.0.as_ptr();
        // SAFETY: `pinned` has a reference to the buffer. By the type invariant `map` is a mapping
        // of it, which nobody uses any more: its users have borrowed this object.
        unsafe {
            if let Some(direction) = self.begun {
                bindings::dma_buf_end_cpu_access(raw, direction);
            }
            bindings::dma_buf_vunmap_unlocked(raw, &mut self.map);
        }
    }
}
