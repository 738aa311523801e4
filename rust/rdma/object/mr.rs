// SPDX-License-Identifier: GPL-2.0

//! Memory regions: the structure that a driver allocates for the core, and fast registration.

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

/// The part of a region that is the same for all drivers.
#[repr(C)]
pub(crate) struct MrHead {
    mr: Opaque<bindings::ib_mr>,
    /// The pages that [`SgMap::map_into`] fills, while it runs.
    filling: AtomicPtr<Blocks>,
}

/// A memory region (`struct ib_mr`). The driver's side allocates it, unlike other objects.
#[repr(C)]
pub(crate) struct MrObject<D: Driver> {
    head: MrHead,
    pub(crate) data: Arc<D::Mr>,
}

impl<D: Driver> MrObject<D> {
    /// Allocates the C structure for `new`. Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn create(new: NewMr<D::Mr>, consumer: Consumer) -> Result<*mut bindings::ib_mr> {
        let mr: Opaque<bindings::ib_mr> = pin_init::zeroed();
        // SAFETY: Zeroes are a valid value of the structure, and nobody else has it yet.
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
    /// `mr` must come from [`Self::create`], and must not be freed during `'a`.
    pub(crate) unsafe fn data<'a>(mr: *mut bindings::ib_mr) -> &'a Arc<D::Mr> {
        // SAFETY: By the contract of this function `mr` begins a `Self`. The field does not change.
        unsafe { &(*mr.cast::<Self>()).data }
    }

    /// The driver's region if `mr` is of `device`.
    ///
    /// # Safety
    ///
    /// `mr` must be null or a region that is not freed during the call. `device` must be of driver
    /// `D`.
    pub(crate) unsafe fn of_device(
        mr: *mut bindings::ib_mr,
        device: *mut bindings::ib_device,
    ) -> Option<Arc<D::Mr>> {
        // SAFETY: By the contract of this function a region is valid. If its device is `device`,
        // which is of driver `D`, it comes from `create`.
        unsafe { (!mr.is_null() && (*mr).device == device).then(|| Self::data(mr).clone()) }
    }

    /// Frees the C structure.
    ///
    /// # Safety
    ///
    /// `mr` must come from [`Self::create`], and nobody may use it any more.
    pub(crate) unsafe fn free(mr: *mut bindings::ib_mr) {
        // SAFETY: By the contract of this function `mr` comes from a box in `create`, and is ours.
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
    /// Pins the memory. Errors: see [`Umem`] and `ib_umem_get_va()`. Context: sleeping.
    pub fn pin(&self) -> Result<Umem> {
        // SAFETY: A driver has this object during its `reg_user_mr` only, which keeps the device.
        unsafe { Umem::pin(self.device, self.start, self.length, self.access) }
    }
}

/// Memory of a process, as a region addresses it.
#[derive(Clone, Copy)]
pub struct UserMemory {
    /// The address in the process.
    pub start: u64,
    /// The number of bytes.
    pub length: u64,
    /// The address by which work requests name the first byte.
    pub iova: u64,
}

/// A request to change a process' region. What is `None` stays as it is.
pub struct Rereg {
    /// The memory that the region is to have.
    pub memory: Option<UserMemory>,
    /// The rights that it is to give.
    pub access: Option<Access>,
    pub(crate) device: *mut bindings::ib_device,
}

impl Rereg {
    /// Pins memory of the calling process for a region with the rights `access`, as
    /// [`UserMr::pin`]. Context: sleeping.
    pub fn pin(&self, start: u64, length: u64, access: Access) -> Result<Umem> {
        // SAFETY: A driver has this object during its `rereg_user_mr` only, which keeps the device.
        unsafe { Umem::pin(self.device, start, length, access) }
    }
}

/// The pages of a fast registration, which a kernel consumer has mapped to a region.
///
/// [`SgMap::map_into`] fills it. Its bytes are addressed by their offset from [`Self::iova`].
pub struct PageList {
    blocks: Blocks,
    iova: u64,
}

impl PageList {
    /// Makes room for up to `max_pages` pages. Errors: `ENOMEM`. Context: sleeping.
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

    /// Sets the address by which work requests name the first byte.
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
        // SAFETY: A kernel consumer has mapped the pages, and keeps them until it has invalidated
        // the region. With virtual DMA their addresses are kernel addresses.
        Ok(unsafe { Span::new(addr, len, true) })
    }
}

/// A call of `ib_map_mr_sg()` in progress.
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
    /// The parameters must be those of a `map_mr_sg` operation in progress, and `mr` must come from
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

    /// The number of elements of the scatterlist that were mapped: the operation's result.
    pub(crate) fn mapped(&self) -> i32 {
        self.mapped
    }

    /// Replaces the pages of `list` by those of the scatterlist, as many as fit. Returns how many
    /// of its elements were mapped. The consumer gets that number, too, and in the region's `iova`
    /// the offset of the first byte in its page. Wraps `ib_sg_to_pages()`. Errors: `EINVAL`;
    /// `EBUSY` if the consumer maps the same region at the same time. Context: any.
    pub fn map_into(&mut self, list: &mut PageList) -> Result<u32> {
        // SAFETY: By the contract of `new` this is a region from `MrObject::create`, which begins
        // with the head, and the operation keeps it.
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
        // SAFETY: `list` is mutably borrowed, and nobody else uses it.
        unsafe { (*blocks).begin(page_size.trailing_zeros()) };
        // SAFETY: By the contract of `new` the parameters are those of the operation. `set_page` is
        // called during the call only, and finds the list through `filling`.
        let mapped = unsafe {
            bindings::ib_sg_to_pages(self.mr, self.sg, self.nents, self.offset, Some(set_page))
        };
        head.filling.store(ptr::null_mut(), Ordering::Release);
        // `ib_sg_to_pages()` has set `iova` and `length`. With virtual DMA `iova` is a kernel
        // address, which the consumer would tell its peer. Its offset in the page names the first
        // byte as well.
        // SAFETY: By the contract of `new` the operation keeps the region.
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

/// Takes a page from `ib_sg_to_pages()` into the list that is being filled.
///
/// # Safety
///
/// Only that function may call this, in a call from [`SgMap::map_into`].
unsafe extern "C" fn set_page(mr: *mut bindings::ib_mr, addr: u64) -> i32 {
    // SAFETY: The region comes from `MrObject::create`, so it begins with the head.
    let blocks = unsafe { (*mr.cast::<MrHead>()).filling.load(Ordering::Relaxed) };
    // SAFETY: `map_into` waits for this to return. It has put the list there, which it borrows
    // mutably and does not touch meanwhile.
    match unsafe { (*blocks).push(addr as usize) } {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}
