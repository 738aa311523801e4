// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that a process can map.
//!
//! Memory for a process is charged to its memory cgroup. A [`SharedMem`] is a counted reference to
//! such memory. Making it mappable (`MmapEntry`, by [`Udata::share`](crate::Udata::share)) takes
//! another reference, for as long as the core knows the mmap offset. A mapping itself keeps the
//! pages by their own reference counts. So the kernel's side may end before or after the process'
//! side.

use crate::owner::Consumer;
use core::{ffi::c_void, mem::ManuallyDrop, ptr::NonNull};
use kernel::{
    page::{PAGE_SHIFT, PAGE_SIZE},
    prelude::*,
    sync::Arc,
};
use kext::defer::Deferred;
use rdma_bindings as bindings;

/// The first page offset that is given out. The library takes the offsets 0 and 0x90000 for "no
/// ring", so nothing at or below the latter is used.
const FIRST_PGOFF: u32 = (0x9_0000 >> PAGE_SHIFT) + 1;

/// A zeroed page.
///
/// INVARIANT: The page has a reference, which is this object's.
struct Page(NonNull<bindings::page>);

// SAFETY: The object only has the address of the page, which belongs to no thread.
unsafe impl Send for Page {}
// SAFETY: A shared reference only gives the address of the page.
unsafe impl Sync for Page {}

impl Page {
    fn new(consumer: Consumer) -> Result<Self> {
        // SAFETY: The function has no requirements but its context, a thread that may sleep.
        let page = unsafe { bindings::rdma_alloc_ring_page(consumer == Consumer::Process) };
        // INVARIANT: The reference that the page comes with is not given to anybody else.
        Ok(Self(NonNull::new(page).ok_or(ENOMEM)?))
    }

    /// Where the kernel has all its memory. Errors: `ENOMEM`, for a page that is not there.
    fn address(&self) -> Result<Address> {
        // SAFETY: By the type invariant the page is valid.
        let addr = unsafe { bindings::rdma_page_address(self.0.as_ptr()) };
        Ok(Address(NonNull::new(addr).ok_or(ENOMEM)?))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is this object's. Mappings have their own.
        unsafe { bindings::rdma_free_page(self.0.as_ptr()) };
    }
}

/// Zeroed pages, each with one reference, which is this object's.
struct Pages(KVVec<*mut bindings::page>);

impl Pages {
    fn new(count: usize, consumer: Consumer) -> Result<Self> {
        let mut pages = Self(KVVec::with_capacity(count, consumer.flags())?);
        for _ in 0..count {
            let page = ManuallyDrop::new(Page::new(consumer)?);
            // The vector has room for the page, so it is not lost.
            pages.0.push(page.0.as_ptr(), consumer.flags())?;
        }
        Ok(pages)
    }

    /// Maps the pages at contiguous kernel addresses.
    fn map(mut self) -> Result<Mapped> {
        let count = self.0.len().try_into()?;
        // SAFETY: The array has `count` pages and comes from `kvmalloc()`. If the function
        // succeeds, pages and array belong to the mapping, and they are given away below.
        let addr = unsafe { bindings::rdma_vmap_user(self.0.as_mut_ptr(), count) };
        let addr = NonNull::new(addr).ok_or(ENOMEM)?;
        // The pages and the array belong to the mapping now.
        let _ = core::mem::take(&mut self.0).into_raw_parts();
        Ok(Mapped(Address(addr)))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for page in &self.0 {
            // SAFETY: The reference is this object's, and nobody has mapped the page.
            unsafe { bindings::rdma_free_page(*page) };
        }
    }
}

/// Where memory is mapped in the kernel.
#[derive(Clone, Copy)]
struct Address(NonNull<c_void>);

// SAFETY: The object only has the address of the memory, which belongs to no thread.
unsafe impl Send for Address {}
// SAFETY: A shared reference only gives the address of the memory.
unsafe impl Sync for Address {}

/// Mapped [`Pages`], which `remap_vmalloc_range()` accepts and `vfree()` frees.
struct Mapped(Address);

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `vfree()` frees all that the mapping was made of, and nobody in the kernel uses
        // it any more. Pages that a process has mapped stay, by that mapping's references.
        unsafe { bindings::vfree(self.0 .0.as_ptr()) };
    }
}

/// What memory is made of. Any context may drop it.
enum Content {
    /// One page, which needs no mapping of its own. Most rings are that short, and a mapping would
    /// cost time, memory, and a work item for its end.
    Page(Page),
    /// Several pages; `vfree()` may sleep.
    Mapped { _mapping: Deferred<Mapped> },
}

/// A reference to zeroed kernel memory that can be mapped by a process.
///
/// Any context may drop a reference.
#[derive(Clone)]
pub struct SharedMem {
    /// Where the pages are. Accesses to a ring begin with it, and so do not follow the references
    /// to the pages.
    start: Address,
    content: Arc<Content>,
    len: usize,
    consumer: Consumer,
}

impl SharedMem {
    /// Allocates at least `len` bytes for `consumer`, in whole pages. Errors: `EINVAL` if `len` is
    /// 0 or too large, `ENOMEM` (also beyond the limit of the memory cgroup), `ENODEV` without a
    /// [`Core`](kext::Core). Context: sleeping.
    pub fn new(len: usize, consumer: Consumer) -> Result<Self> {
        if len == 0 || len > i32::MAX as usize {
            return Err(EINVAL);
        }
        let (start, content) = match len.div_ceil(PAGE_SIZE) {
            1 => {
                let page = Page::new(consumer)?;
                (page.address()?, Content::Page(page))
            }
            count => {
                let pages = Pages::new(count, consumer)?.map()?;
                (
                    pages.0,
                    Content::Mapped {
                        _mapping: Deferred::new(pages)?,
                    },
                )
            }
        };
        Ok(Self {
            start,
            content: Arc::new(content, consumer.flags())?,
            len,
            consumer,
        })
    }

    /// The number of bytes that the memory was made with.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The consumer that the memory was made for.
    pub fn consumer(&self) -> Consumer {
        self.consumer
    }

    /// Always false.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory, which is aligned to a page. `self` has a reference to it, so it is valid for
    /// reads and writes of [`Self::len`] bytes as long as `self` lives. Others change it at any
    /// time.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.0.as_ptr().cast()
    }

    /// Maps the memory in a process.
    ///
    /// # Safety
    ///
    /// `vma` must be what the `mmap` operation has got, and be as long as the memory's pages.
    unsafe fn map(&self, vma: *mut bindings::vm_area_struct) -> i32 {
        match &*self.content {
            // SAFETY: By the contract of this function the mapping is valid. `self` has a reference
            // to the page, and the mapping takes another one. The page was zeroed, and has nothing
            // but what the process may see.
            Content::Page(page) => unsafe { bindings::rdma_map_page(vma, page.0.as_ptr()) },
            // SAFETY: By the contract of this function the mapping is valid. The memory is that of
            // a `Mapped`.
            Content::Mapped { .. } => unsafe {
                bindings::remap_vmalloc_range(vma, self.as_ptr().cast(), 0)
            },
        }
    }
}

/// A [`SharedMem`] under an mmap offset of a user context.
#[repr(C)]
struct MmapEntry {
    c: bindings::rdma_user_mmap_entry,
    mem: SharedMem,
}

/// An inserted [`MmapEntry`]. Dropping it allows no more mappings.
///
/// It must be dropped before the user context that it was made for is gone.
pub(crate) struct MmapHandle(NonNull<bindings::rdma_user_mmap_entry>);

// SAFETY: The core counts references to the entry and locks it. Any thread may remove it.
unsafe impl Send for MmapHandle {}
// SAFETY: The core counts references to the entry and locks it.
unsafe impl Sync for MmapHandle {}

impl MmapHandle {
    /// Lets the processes of `context` map `mem`. Errors: `ENOMEM`. Context: sleeping.
    ///
    /// # Safety
    ///
    /// `context` must be a live user context of a device whose `mmap` and `mmap_free` operations
    /// are this module's. The handle must be dropped before the context is gone.
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
        // SAFETY: By the contract of this function the context is live. The entry is where it stays
        // until `mmap_free`.
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
            // SAFETY: The entry comes from a box, and was not inserted, so nobody else has it.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(e);
        }
        // SAFETY: The pointer comes from a box, so it is not null.
        Ok(Self(unsafe { NonNull::new_unchecked(entry.cast()) }))
    }

    /// The offset for `mmap()`, in bytes.
    pub(crate) fn offset(&self) -> u64 {
        // SAFETY: `self` has a reference to the entry.
        unsafe { bindings::rdma_user_mmap_get_offset(self.0.as_ptr()) }
    }
}

impl Drop for MmapHandle {
    fn drop(&mut self) {
        // SAFETY: This gives back the reference that inserting the entry made. The context is
        // alive, by the contract of `insert`.
        unsafe { bindings::rdma_user_mmap_entry_remove(self.0.as_ptr()) };
    }
}

/// The `mmap` operation.
///
/// # Safety
///
/// Only the core may call this, for a device that uses [`mmap_free`].
pub(crate) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> i32 {
    // The function checks for `VM_SHARED` and the exact length, too.
    // SAFETY: Context and mapping are valid for the time of this operation.
    let entry = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
    if entry.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: All entries of the device's contexts are `MmapEntry`s, and this one is alive, as its
    // reference is held. The memory has the length of the entry, and the core has checked that so
    // has the mapping.
    let ret = unsafe { (*entry.cast::<MmapEntry>()).mem.map(vma) };
    // SAFETY: The reference was taken above.
    unsafe { bindings::rdma_user_mmap_entry_put(entry) };
    ret
}

/// The `mmap_free` operation: the last reference to an entry is gone.
///
/// # Safety
///
/// Only the core may call this.
pub(crate) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: All entries come from a box in `MmapHandle::insert`, and the core does not use it any
    // more.
    drop(unsafe { KBox::from_raw(entry.cast::<MmapEntry>()) });
}
