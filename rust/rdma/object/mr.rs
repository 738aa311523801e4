// SPDX-License-Identifier: GPL-2.0

//! Memory regions: what a driver allocates for the core, and fast registration.

use crate::{
    attr::Access,
    blocks::Blocks,
    owner::Consumer,
    span::{Memory, Span},
    umem::Umem,
    Driver,
};
use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{prelude::*, sync::Arc, types::Opaque};
use rdma_bindings as bindings;

/// The part of a region that does not depend on the driver.
#[repr(C)]
pub(crate) struct MrHead {
    mr: Opaque<bindings::ib_mr>,
    /// Where [`SgMap::map_into`] puts pages while it runs.
    filling: AtomicPtr<Blocks>,
}

/// A memory region (`struct ib_mr`). Unlike other objects the driver's side allocates it.
#[repr(C)]
pub(crate) struct MrObject<D: Driver> {
    head: MrHead,
    pub(crate) data: Arc<D::Mr>,
}

impl<D: Driver> MrObject<D> {
    /// Allocates the C structure for `new`.
    pub(crate) fn create(new: NewMr<D::Mr>, consumer: Consumer) -> Result<*mut bindings::ib_mr> {
        let mr: Opaque<bindings::ib_mr> = pin_init::zeroed();
        // SAFETY: Zeroes are a valid value of the structure, which is not shared yet.
        unsafe {
            (*mr.get()).lkey = new.lkey;
            (*mr.get()).rkey = new.rkey;
        }
        let object = KBox::new(
            Self {
                head: MrHead {
                    mr,
                    filling: AtomicPtr::new(ptr::null_mut()),
                },
                data: new.mr,
            },
            consumer.flags(),
        )?;
        Ok(KBox::into_raw(object).cast())
    }

    /// The driver's region.
    ///
    /// # Safety
    ///
    /// `mr` comes from [`Self::create`] and is not freed during `'a`.
    pub(crate) unsafe fn data<'a>(mr: *mut bindings::ib_mr) -> &'a Arc<D::Mr> {
        // SAFETY: By the requirement; the field does not change.
        unsafe { &(*mr.cast::<Self>()).data }
    }

    /// The driver's region if `mr` is of `device`.
    ///
    /// # Safety
    ///
    /// `mr` is null or a region that is not freed during the call; `device` is one of driver `D`.
    pub(crate) unsafe fn of_device(
        mr: *mut bindings::ib_mr,
        device: *mut bindings::ib_device,
    ) -> Option<Arc<D::Mr>> {
        // SAFETY: By the requirement; if the device is the driver's, so is the region.
        unsafe { (!mr.is_null() && (*mr).device == device).then(|| Self::data(mr).clone()) }
    }

    /// Frees the C structure.
    ///
    /// # Safety
    ///
    /// `mr` comes from [`Self::create`], and nobody uses it any more.
    pub(crate) unsafe fn free(mr: *mut bindings::ib_mr) {
        // SAFETY: By the requirement.
        drop(unsafe { KBox::from_raw(mr.cast::<Self>()) });
    }
}

/// A region that the driver has made.
pub struct NewMr<T> {
    /// The driver's part.
    pub mr: Arc<T>,
    /// The local key.
    pub lkey: u32,
    /// The remote key.
    pub rkey: u32,
}

/// A request to register memory of the calling process.
pub struct UserMr {
    /// The address in the process.
    pub start: u64,
    /// The number of bytes.
    pub length: u64,
    /// The address by which work requests name the first byte.
    pub iova: u64,
    /// The rights that the region gives.
    pub access: Access,
    pub(crate) device: *mut bindings::ib_device,
}

impl UserMr {
    /// Pins the memory. Fails as [`Umem`] says; see `ib_umem_get_va()`. Context: sleeping.
    pub fn pin(&self) -> Result<Umem> {
        // SAFETY: The device is in the middle of registering this memory.
        unsafe { Umem::pin(self.device, self.start, self.length, self.access) }
    }
}

/// The pages of a fast registration: what a kernel consumer has mapped to a region.
///
/// It is filled by [`SgMap::map_into`], and addressed by the offset from [`Self::iova`].
pub struct PageList {
    blocks: Blocks,
    iova: u64,
}

impl PageList {
    /// Room for up to `max_pages` pages. Fails with `ENOMEM`. Context: sleeping.
    pub fn with_capacity(max_pages: u32) -> Result<Self> {
        Ok(Self {
            blocks: Blocks::with_capacity(max_pages as usize)?,
            iova: 0,
        })
    }

    /// The address by which work requests name the first byte.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// Has the first byte addressed by `iova`.
    pub fn set_iova(&mut self, iova: u64) {
        self.iova = iova;
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.blocks.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Memory for PageList {
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        let (addr, len) = self.blocks.find(offset, len)?;
        // SAFETY: The pages were mapped by a consumer in the kernel, which keeps them until it
        // has invalidated the region; with virtual DMA their addresses are the kernel's.
        Ok(unsafe { Span::new(addr, len, true) })
    }
}

/// A call of `ib_map_mr_sg()`.
pub struct SgMap<'a> {
    mr: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    nents: i32,
    offset: *mut u32,
    mapped: i32,
    _call: PhantomData<&'a ()>,
}

impl SgMap<'_> {
    /// # Safety
    ///
    /// The parameters are those of a `map_mr_sg` operation in progress, and `mr` comes from
    /// [`MrObject::create`].
    pub(crate) unsafe fn new(
        mr: *mut bindings::ib_mr,
        sg: *mut bindings::scatterlist,
        nents: i32,
        offset: *mut u32,
    ) -> Self {
        Self {
            mr,
            sg,
            nents,
            offset,
            mapped: 0,
            _call: PhantomData,
        }
    }

    /// How many elements of the scatterlist were mapped: the operation's result.
    pub(crate) fn mapped(&self) -> i32 {
        self.mapped
    }

    /// Replaces what is in `list` by the pages of the scatterlist, as many as fit, and returns how
    /// many elements of it were mapped, which is also reported to the consumer, and the offset
    /// of the first byte in its page, as the region's `iova`. Wraps
    /// `ib_sg_to_pages()`. Fails with `EINVAL`, and with `EBUSY` if the consumer maps the same
    /// region at the same time. Context: any.
    pub fn map_into(&mut self, list: &mut PageList) -> Result<u32> {
        // SAFETY: By the requirement of `new`.
        let (head, page_size) = unsafe { (&*self.mr.cast::<MrHead>(), (*self.mr).page_size) };
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let blocks = &raw mut list.blocks;
        head.filling
            .compare_exchange(
                ptr::null_mut(),
                blocks,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| EBUSY)?;
        // SAFETY: The list is borrowed mutably.
        unsafe { (*blocks).begin(page_size.trailing_zeros()) };
        // SAFETY: The parameters are the operation's own. `set_page` is called during the call
        // only, and finds the list by way of `filling`.
        let mapped = unsafe {
            bindings::ib_sg_to_pages(self.mr, self.sg, self.nents, self.offset, Some(set_page))
        };
        head.filling.store(ptr::null_mut(), Ordering::Release);
        // The function has set both; with virtual DMA the first is an address of the kernel, which
        // the consumer would tell its peer. Within a page it is as good to name the first byte by.
        // SAFETY: The region is the operation's own.
        let (iova, length) = unsafe {
            (*self.mr).iova &= u64::from(page_size - 1);
            ((*self.mr).iova, (*self.mr).length)
        };
        if mapped <= 0 {
            list.blocks.end(0, 0);
            self.mapped = mapped;
            return Err(if mapped < 0 {
                Error::from_errno(mapped)
            } else {
                EINVAL
            });
        }
        list.iova = iova;
        list.blocks.end(iova, length);
        self.mapped = mapped;
        Ok(mapped as u32)
    }
}

/// Takes one page from `ib_sg_to_pages()`.
///
/// # Safety
///
/// Only to be called by that function, from [`SgMap::map_into`].
unsafe extern "C" fn set_page(mr: *mut bindings::ib_mr, addr: u64) -> i32 {
    // SAFETY: The region comes from `MrObject::create`, so it begins with the head.
    let blocks = unsafe { (*mr.cast::<MrHead>()).filling.load(Ordering::Relaxed) };
    // SAFETY: `map_into` is waiting for this to return; it has put the list that it borrows
    // mutably there, and does not touch it meanwhile.
    match unsafe { (*blocks).push(addr as usize) } {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}
