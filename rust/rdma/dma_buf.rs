// SPDX-License-Identifier: GPL-2.0

//! Buffers that drivers share by a file descriptor (dma-buf), mapped for copies by a processor.
//!
//! A device that transfers by DMA attaches itself to the buffer and gets bus addresses. The devices
//! of this crate copy. So they have the exporter map the buffer into the kernel's address space.
//! That alone does not keep the memory where it is: some exporters move a buffer that is mapped. So
//! the device attaches itself nevertheless, and has the exporter pin the buffer, in system memory,
//! before it is mapped. An exporter that cannot pin does not move a buffer that is attached and
//! mapped. `dma_buf_begin_cpu_access()` is called once, as peers write at any time.

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
// SAFETY: `Direction` is an integer of 32 bits, or has one as its only field: any such value is one
// of it. The constant is 0 in C.
const BOTH_WAYS: Direction = unsafe { core::mem::transmute::<u32, Direction>(0) };

/// They only read it: `DMA_FROM_DEVICE`.
// SAFETY: As above. The constant is 2 in C.
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

impl Buffer {
    /// Calls `f` with the buffer's lock, and returns its error. Context: sleeping.
    fn locked(&self, f: impl FnOnce() -> i32) -> Result {
        // SAFETY: By the type invariant it is a buffer. This thread does not hold its lock, as no
        // function that a lock is held for takes it.
        unsafe { bindings::rdma_dma_buf_lock(self.0.as_ptr()) };
        let ret = f();
        // SAFETY: This thread has locked it above.
        unsafe { bindings::rdma_dma_buf_unlock(self.0.as_ptr()) };
        to_result(ret)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant there is a reference to put, and the buffer is not used any
        // more by this object.
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
        // SAFETY: By the contract of this function the device is alive, so the field is in it.
        let dev = unsafe { &raw mut (*device).__bindgen_anon_1.dev };
        // SAFETY: By its invariant `buf` keeps the buffer. By the contract of this function the
        // device stays until the attachment is undone. The operations are static, and need no
        // private pointer.
        let attach = from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(raw, dev.cast(), &IMPORTER, null_mut())
        })?;
        // SAFETY: The attachment is one to this buffer, whose lock is held.
        if let Err(e) = buf.locked(|| unsafe { bindings::dma_buf_pin(attach) }) {
            // SAFETY: The attachment is one to this buffer and is not pinned. Nobody else has it.
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
        let _ = self.buf.locked(|| {
            // SAFETY: By the type invariant there is a pin to undo. The buffer's lock is held.
            unsafe { bindings::dma_buf_unpin(attach) };
            0
        });
        // SAFETY: By the type invariant the attachment is one to the buffer, which `buf` keeps. The
        // pin is undone, and nobody uses the attachment afterwards.
        unsafe { bindings::dma_buf_detach(raw, attach) };
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
        // SAFETY: Any number is allowed: the function checks that it stands for such a file.
        let buf = from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        // INVARIANT: The function has returned a reference.
        let buf = Buffer(NonNull::new(buf).ok_or(EBADF)?);
        let raw = buf.0.as_ptr();
        // Before the exporter moves anything for this call.
        // SAFETY: `buf` keeps the buffer, whose size does not change, nor do its operations.
        let (size, can_map) = unsafe { ((*raw).size as u64, (*(*raw).ops).vmap.is_some()) };
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(EINVAL);
        }
        if !can_map {
            return Err(unsupported());
        }
        // SAFETY: By the contract of this function the device stays until the result is dropped,
        // and `pinned` with it, or until this has failed.
        let pinned = unsafe { PinnedBuffer::new(device, buf) }?;
        let mut map: bindings::iosys_map = pin_init::zeroed();
        // SAFETY: `pinned` keeps the buffer, which has this operation and whose lock is not held.
        // `map` is valid for writes.
        to_result(unsafe { bindings::dma_buf_vmap_unlocked(raw, &mut map) })?;
        if map.is_iomem {
            // The copies of `kext::copy` are for system memory.
            // SAFETY: `pinned` keeps the buffer, of which `map` is a mapping that was made above.
            // Nobody uses it.
            unsafe { bindings::dma_buf_vunmap_unlocked(raw, &mut map) };
            return Err(unsupported());
        }
        // INVARIANT: The mapping was made above, and is not of I/O memory.
        let mut this = Self {
            map,
            begun: None,
            pinned,
        };
        let direction = if writable { BOTH_WAYS } else { READ_ONLY };
        // SAFETY: `this` keeps the buffer, whose lock is not held.
        to_result(unsafe { bindings::dma_buf_begin_cpu_access(raw, direction) })?;
        this.begun = Some(direction);
        // SAFETY: By the type invariant the mapping is of system memory, so the union has `vaddr`.
        let base = unsafe { this.map.__bindgen_anon_1.vaddr } as usize;
        let addr = base.checked_add(offset.try_into()?).ok_or(EINVAL)?;
        Ok((this, addr))
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        let raw = self.pinned.buf.0.as_ptr();
        if let Some(direction) = self.begun {
            // SAFETY: `pinned` keeps the buffer, whose lock is not held. The access has begun in
            // `map`, with this direction. Nobody accesses the memory any more, as all who do have
            // borrowed this object.
            unsafe { bindings::dma_buf_end_cpu_access(raw, direction) };
        }
        // SAFETY: `pinned` keeps the buffer, whose lock is not held. By the type invariant `map` is
        // a mapping of it, which nobody uses any more.
        unsafe { bindings::dma_buf_vunmap_unlocked(raw, &mut self.map) };
    }
}
