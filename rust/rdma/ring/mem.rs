// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that a process can map.
//!
//! That for a process is charged to its memory cgroup. A [`SharedMem`] is a counted reference to
//! it. Making it mappable (`MmapEntry`, by way of [`Udata::share`](crate::Udata::share)) takes
//! another one, for as long as the core knows the mmap offset; a mapping itself keeps the pages by
//! their own reference counts. So the kernel's side can go first or last.

use crate::{defer::Deferred, owner::Consumer};
use core::{ffi::c_void, ptr::NonNull};
use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};
use rdma_bindings as bindings;

/// The first page offset that is handed out. The library takes the offset 0x90000 for "no ring",
/// so nothing at or below it is used; neither is 0, which means that too.
const FIRST_PGOFF: u32 = (0x9_0000 >> PAGE_SHIFT) + 1;

/// Zeroed pages, each with one reference that is this one's.
struct Pages(KVVec<*mut bindings::page>);

impl Pages {
    fn new(count: usize, consumer: Consumer) -> Result<Self> {
        let mut pages = Self(KVVec::with_capacity(count, consumer.flags())?);
        for _ in 0..count {
            // SAFETY: No requirements but the context, a process that may sleep.
            let page = unsafe { bindings::rdma_alloc_ring_page(consumer == Consumer::Process) };
            if page.is_null() {
                return Err(ENOMEM);
            }
            // There is room for it, so it is not lost.
            pages.0.push(page, consumer.flags())?;
        }
        Ok(pages)
    }

    /// Gives them an address.
    fn map(mut self) -> Result<UserPages> {
        let count = self.0.len().try_into()?;
        // SAFETY: They are as many pages, and both they and the array (from `kvmalloc()`) are
        // given away below if it succeeds.
        let addr = unsafe { bindings::rdma_vmap_user(self.0.as_mut_ptr(), count) };
        let addr = NonNull::new(addr).ok_or(ENOMEM)?;
        // They belong to the mapping now, and so does the array.
        let _ = core::mem::take(&mut self.0).into_raw_parts();
        Ok(UserPages(addr))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for page in &self.0 {
            // SAFETY: The reference is this one's, and nobody has mapped the page.
            unsafe { bindings::rdma_free_page(*page) };
        }
    }
}

/// Mapped [`Pages`], which `remap_vmalloc_range()` takes and `vfree()` frees.
struct UserPages(NonNull<c_void>);

// SAFETY: The memory belongs to nobody's thread, and only its address is here.
unsafe impl Send for UserPages {}
// SAFETY: As above.
unsafe impl Sync for UserPages {}

impl Drop for UserPages {
    fn drop(&mut self) {
        // SAFETY: They were mapped with all that it frees, and this was the last user in the
        // kernel. Pages that a process has mapped stay by that mapping's references.
        unsafe { bindings::vfree(self.0.as_ptr()) };
    }
}

/// A reference to zeroed kernel memory that can be mapped by a process.
///
/// References can be dropped in any context.
#[derive(Clone)]
pub struct SharedMem {
    pages: Arc<Deferred<UserPages>>,
    len: usize,
    consumer: Consumer,
}

impl SharedMem {
    /// Allocates at least `len` bytes for `consumer`, in whole pages. Fails with `EINVAL` for none
    /// or too many, `ENOMEM` (also beyond the limit of the memory cgroup), and `ENODEV` without a
    /// [`Core`](crate::Core). Context: sleeping.
    pub fn new(len: usize, consumer: Consumer) -> Result<Self> {
        if len == 0 || len > i32::MAX as usize {
            return Err(EINVAL);
        }
        let pages = Pages::new(len.div_ceil(PAGE_SIZE), consumer)?.map()?;
        let pages = Arc::new(Deferred::new(pages)?, consumer.flags())?;
        Ok(Self {
            pages,
            len,
            consumer,
        })
    }

    /// The number of bytes that were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Who it was made for.
    pub fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory: valid for reads and writes of [`Self::len`] bytes as long as `self`, aligned
    /// to a page, and changed by others at any time.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.pages.0.as_ptr().cast()
    }
}

/// A [`SharedMem`] under an mmap offset of a user context.
#[repr(C)]
struct MmapEntry {
    c: bindings::rdma_user_mmap_entry,
    mem: SharedMem,
}

/// An inserted [`MmapEntry`]; dropping it lets no more mappings be made.
///
/// It must be dropped before the user context that it was made for is gone.
pub(crate) struct MmapHandle(NonNull<bindings::rdma_user_mmap_entry>);

// SAFETY: The entry is reference counted and locked by the core; it is removed from any thread.
unsafe impl Send for MmapHandle {}
// SAFETY: As above.
unsafe impl Sync for MmapHandle {}

impl MmapHandle {
    /// Makes `mem` mappable by the processes of `context`. Fails with `ENOMEM`. Context: sleeping.
    ///
    /// # Safety
    ///
    /// `context` is a live user context of a device whose `mmap` and `mmap_free` are this
    /// module's, and the handle is dropped before it is gone.
    pub(crate) unsafe fn insert(
        context: *mut bindings::ib_ucontext,
        mem: &SharedMem,
    ) -> Result<Self> {
        let entry = KBox::new(
            MmapEntry {
                c: pin_init::zeroed(),
                mem: mem.clone(),
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let entry = KBox::into_raw(entry);
        // SAFETY: The context is live; the entry is in its place and stays until `mmap_free`.
        let ret = unsafe {
            bindings::rdma_user_mmap_entry_insert_range(
                context,
                &raw mut (*entry).c,
                mem.len(),
                FIRST_PGOFF,
                u32::MAX,
            )
        };
        if let Err(e) = kernel::error::to_result(ret) {
            // SAFETY: The entry was not inserted.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(e);
        }
        // SAFETY: It comes from a box.
        Ok(Self(unsafe { NonNull::new_unchecked(entry.cast()) }))
    }

    /// The offset for `mmap()`, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        // SAFETY: The entry is alive as long as `self`.
        unsafe { bindings::rdma_user_mmap_get_offset(self.0.as_ptr()) }
    }
}

impl Drop for MmapHandle {
    fn drop(&mut self) {
        // SAFETY: This gives the reference back that inserting it made; the context is alive, as
        // the caller of `insert` has promised.
        unsafe { bindings::rdma_user_mmap_entry_remove(self.0.as_ptr()) };
    }
}

/// The `mmap` operation.
///
/// # Safety
///
/// Only to be called by the core, for a device that uses [`mmap_free`].
pub(crate) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> i32 {
    // It checks for VM_SHARED and the exact length, too.
    // SAFETY: Both pointers are the core's.
    let entry = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
    if entry.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: All entries of the device's contexts are `MmapEntry`s, and this one is alive as its
    // reference is held. The memory is `UserPages`, and as long as the entry says.
    let ret = unsafe {
        let mem = &(*entry.cast::<MmapEntry>()).mem;
        bindings::remap_vmalloc_range(vma, mem.as_ptr().cast(), 0)
    };
    // SAFETY: The reference was made above.
    unsafe { bindings::rdma_user_mmap_entry_put(entry) };
    ret
}

/// The `mmap_free` operation: the last reference to an entry is gone.
///
/// # Safety
///
/// Only to be called by the core.
pub(crate) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: All entries come from a box in `MmapHandle::insert`, and the core has let go of it.
    drop(unsafe { KBox::from_raw(entry.cast::<MmapEntry>()) });
}
