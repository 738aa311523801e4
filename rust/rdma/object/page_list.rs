// SPDX-License-Identifier: GPL-2.0

//! The memory of fast registrations: what `ib_map_mr_sg()` takes from a scatterlist.

use crate::{
    blocks::{Blocks, Run},
    runs::Runs,
    span::{Memory, Span},
};
use core::{
    marker::PhantomData,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};
use kernel::{page::PAGE_SIZE, prelude::*, types::Opaque};
use rdma_bindings as bindings;

/// The part of a region that is the same for all drivers.
#[repr(C)]
pub(crate) struct MrHead {
    mr: Opaque<bindings::ib_mr>,
    /// The pages that [`SgMap::map_into`] fills, while it runs.
    filling: AtomicPtr<Blocks>,
}

impl MrHead {
    pub(super) fn new(mr: Opaque<bindings::ib_mr>) -> Self {
        Self {
            mr,
            filling: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Which scatterlists a region for fast registration takes (`enum ib_mr_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MrType {
    /// Whole pages, of which the first may begin late and the last end early
    /// (`IB_MR_TYPE_MEM_REG`).
    Pages,
    /// Any (`IB_MR_TYPE_SG_GAPS`).
    Gaps,
}

impl MrType {
    /// The type, if drivers of this crate know it.
    pub(crate) fn from_c(mr_type: bindings::ib_mr_type) -> Option<Self> {
        match mr_type {
            bindings::ib_mr_type_IB_MR_TYPE_MEM_REG => Some(Self::Pages),
            bindings::ib_mr_type_IB_MR_TYPE_SG_GAPS => Some(Self::Gaps),
            _ => None,
        }
    }
}

/// How the bytes of a list are found.
enum Table {
    Pages(Blocks),
    Gaps(Runs),
}

/// The memory of a fast registration, which a kernel consumer has mapped to a region.
///
/// [`SgMap::map_into`] fills it. Its bytes are addressed by their offset from [`Self::iova`].
pub struct PageList {
    table: Table,
    iova: u64,
}

impl PageList {
    /// Makes room for up to `max` pages, or elements of scatterlists with gaps. Errors: `ENOMEM`.
    /// Context: sleeping.
    pub fn with_capacity(mr_type: MrType, max: u32) -> Result<Self> {
        let table = match mr_type {
            MrType::Pages => Table::Pages(Blocks::with_capacity(max as usize)?),
            MrType::Gaps => Table::Gaps(Runs::with_capacity(max as usize)?),
        };
        Ok(Self { table, iova: 0 })
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
        match &self.table {
            Table::Pages(blocks) => blocks.len(),
            Table::Gaps(runs) => runs.len(),
        }
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Memory for PageList {
    #[inline]
    fn span(&self, offset: u64, len: usize) -> Result<Span<'_>> {
        let (addr, len) = match &self.table {
            Table::Pages(blocks) => blocks.find(offset, len)?,
            Table::Gaps(runs) => runs.find(offset, len)?,
        };
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

    /// Replaces the memory of `list` by that of the scatterlist, as much as fits. Returns how many
    /// of its elements were mapped. The consumer gets that number, too, and in the region's `iova`
    /// the offset of the first byte in its page: with virtual DMA its address is one of the kernel,
    /// of which the consumer would tell its peer, and the offset names the byte as well. Errors:
    /// `EINVAL`, `ENOMEM` if not even the first element fits, `EBUSY` if the consumer maps the same
    /// region at the same time. Context: any.
    pub fn map_into(&mut self, list: &mut PageList) -> Result<u32> {
        let mapped = match &mut list.table {
            Table::Pages(blocks) => self.map_pages(blocks)?,
            Table::Gaps(runs) => self.map_runs(runs).inspect_err(|_| runs.clear())?,
        };
        // SAFETY: By the contract of `new` the operation keeps the region.
        list.iova = unsafe { (*self.mr).iova };
        self.mapped = mapped;
        Ok(mapped as u32)
    }

    /// As [`Self::map_into`], of whole pages. Wraps `ib_sg_to_pages()`.
    fn map_pages(&mut self, blocks: &mut Blocks) -> Result<i32> {
        // SAFETY: By the contract of `new` this is a region from `MrObject::create`, which begins
        // with the head, and the operation keeps it.
        let (head, page_size) = unsafe { (&*self.mr.cast::<MrHead>(), (*self.mr).page_size) };
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        blocks.begin(page_size.trailing_zeros());
        let filled = ptr::from_mut(blocks);
        head.filling
            .compare_exchange(
                ptr::null_mut(),
                filled,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| EBUSY)?;
        // SAFETY: By the contract of `new` the parameters are those of the operation. `set_page` is
        // called during the call only, and finds the list through `filling`.
        let mapped = unsafe {
            bindings::ib_sg_to_pages(self.mr, self.sg, self.nents, self.offset, Some(set_page))
        };
        head.filling.store(ptr::null_mut(), Ordering::Release);
        // `ib_sg_to_pages()` has set `iova` and `length`.
        // SAFETY: By the contract of `new` the operation keeps the region.
        let (iova, length) = unsafe {
            (*self.mr).iova &= u64::from(page_size - 1);
            ((*self.mr).iova, (*self.mr).length)
        };
        // SAFETY: As `set_page` does, and that is not called any more: `blocks` is this function's.
        let blocks = unsafe { &mut *filled };
        match mapped {
            1.. => blocks.end(iova, length),
            _ => blocks.end(0, 0),
        }
        match mapped {
            1.. => Ok(mapped),
            0 => Err(EINVAL),
            _ => Err(Error::from_errno(mapped)),
        }
    }

    /// As [`Self::map_into`], of elements that begin and end anywhere.
    fn map_runs(&mut self, runs: &mut Runs) -> Result<i32> {
        runs.clear();
        // SAFETY: By the contract of `new` it is null or the operation's.
        let skip = unsafe { self.offset.as_mut() };
        let mut offset = skip.as_deref().copied().unwrap_or(0);
        let (mut sg, mut mapped, mut first) = (self.sg, 0, 0);
        while mapped < self.nents && !sg.is_null() {
            // SAFETY: By the contract of `new` it is an element of the list, which has `nents` and
            // is mapped for DMA.
            let (addr, len) = unsafe {
                let element = (bindings::rdma_sg_address(sg), bindings::rdma_sg_len(sg));
                sg = bindings::sg_next(sg);
                element
            };
            let len = len.checked_sub(offset).ok_or(EINVAL)?;
            // With virtual DMA it is a kernel address.
            let addr = addr.wrapping_add(u64::from(offset)) as usize;
            let run = Run {
                addr,
                len: len.into(),
            };
            match runs.push(run) {
                Ok(()) if mapped == 0 => first = addr,
                Ok(()) => {}
                Err(e) if mapped == 0 => return Err(e),
                Err(_) => break,
            }
            // Only the first element begins late.
            offset = 0;
            mapped += 1;
        }
        if let Some(skip) = skip {
            *skip = 0;
        }
        // SAFETY: By the contract of `new` the operation keeps the region.
        unsafe {
            (*self.mr).iova = (first % PAGE_SIZE) as u64;
            (*self.mr).length = runs.len();
        }
        match mapped {
            0 => Err(EINVAL),
            _ => Ok(mapped),
        }
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
