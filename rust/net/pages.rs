// SPDX-License-Identifier: GPL-2.0

//! Pages to send from.
//!
//! [`TxPages`] gives out the bytes of its current page one after the other. A [`PageSpan`] is a run
//! of bytes that were given out, with a reference to their page. Once a span was passed to TCP,
//! nobody writes to its bytes: TCP reads them until the peer has acknowledged them and the device
//! has released them, and has a reference of its own until then. A page is used again from its
//! beginning only when its reference count says that nobody else has one.
//!
//! Or a span is memory of others ([`PageSpan::of_kernel`]), which they may write to. Nothing in
//! this crate reads it.

use crate::{bindings, page_ref::PageRef, partial::PartialPage, pool::PagePool};
use kernel::{error::Result, page::PAGE_SIZE, prelude::*, sync::Arc};

/// A run of bytes of a page, with a reference to the page.
///
/// INVARIANT: `raw` describes bytes within a page as [`PageRef`] has them, and this object owns one
/// reference to that page. Or `raw` has no page, and its length is 0.
#[repr(transparent)]
pub struct PageSpan {
    raw: bindings::bio_vec,
}

// SAFETY: The reference count is atomic, any thread may drop a reference, and no function of this
// object accesses the bytes.
unsafe impl Send for PageSpan {}
// SAFETY: Functions with a shared reference only read `raw`, not the bytes.
unsafe impl Sync for PageSpan {}

impl PageSpan {
    /// A span without page and bytes.
    pub const fn empty() -> Self {
        // INVARIANT: No page and no length.
        Self {
            raw: bindings::bio_vec {
                bv_page: core::ptr::null_mut(),
                bv_len: 0,
                bv_offset: 0,
            },
        }
    }

    fn new(page: PageRef, offset: usize, len: usize) -> Self {
        // INVARIANT: The reference moves from `page` to the new object.
        let raw = bindings::bio_vec {
            bv_page: page.into_raw(),
            // CAST: Both are at most the size of a page.
            bv_len: len as u32,
            bv_offset: offset as u32,
        };
        Self { raw }
    }

    /// The first of the `len` bytes at a kernel address, in the memory of others: up to the end of
    /// a page, or of a compound one. `None` if TCP cannot refer to them.
    ///
    /// # Safety
    ///
    /// The byte at `addr` must be mapped, in memory that somebody has and goes on having during
    /// the call.
    pub unsafe fn of_kernel(addr: usize, len: usize) -> Option<Self> {
        // SAFETY: By the contract of this function.
        let page = unsafe { bindings::ksock_page_of(addr as *const c_void) };
        // SAFETY: `ksock_page_of()` has taken the reference for us.
        let page = unsafe { PageRef::from_raw(page) }?;
        // SAFETY: We have a reference to the page, and it is in the kernel's linear mapping, in
        // which it was found.
        let start = unsafe { bindings::ksock_page_address(page.as_ptr()) } as usize;
        let offset = addr.checked_sub(start)?;
        let room = page.size().checked_sub(offset).filter(|room| *room != 0)?;
        // A `bio_vec` has 32 bits for each.
        u32::try_from(offset).ok()?;
        Some(Self::new(page, offset, len.min(room)))
    }

    /// Removes all but the first `n` bytes.
    pub fn truncate(&mut self, n: usize) {
        self.trim_back(self.len().saturating_sub(n));
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.raw.bv_len as usize
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.raw.bv_len == 0
    }

    fn end(&self) -> usize {
        self.raw.bv_offset as usize + self.len()
    }

    /// Removes the first `n` bytes, or all if there are fewer.
    pub(crate) fn trim_front(&mut self, n: usize) {
        let n = n.min(self.len()) as u32;
        self.raw.bv_offset += n;
        self.raw.bv_len -= n;
    }

    /// Removes the last `n` bytes, or all if there are fewer.
    pub(crate) fn trim_back(&mut self, n: usize) {
        let n = n.min(self.len()) as u32;
        self.raw.bv_len -= n;
    }
}

impl Drop for PageSpan {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the page is null, or this has the reference that `new` has
        // made raw, and gives it back once.
        drop(unsafe { PageRef::from_raw(self.raw.bv_page) });
    }
}

/// The pages that a batch is filled from.
pub(crate) struct TxPages {
    /// The page whose bytes are given out now.
    current: Option<PartialPage>,
    /// The pool that pages come from and go to; if there is none, the kernel.
    pool: Option<Arc<PagePool>>,
}

/// A batch of more than this many bytes begins at a page boundary.
const LARGE: usize = 16 * 1024;

impl TxPages {
    pub(crate) fn new(pool: Option<Arc<PagePool>>) -> Self {
        if let Some(pool) = &pool {
            pool.enter();
        }
        Self {
            current: None,
            pool,
        }
    }

    /// Prepares for a new batch of about `hint` bytes. A large one begins at a page boundary, so
    /// that it has as few fragments as possible.
    pub(crate) fn begin(&mut self, hint: usize) {
        self.borrow();
        if let Some(current) = &mut self.current {
            let align = if hint > LARGE { 4096 } else { 64 };
            // INVARIANT: It is always right to skip bytes.
            current.used = current.used.next_multiple_of(align).min(current.size);
        }
    }

    /// Takes a partial page that another batch has left, if there is no current page.
    fn borrow(&mut self) {
        if self.current.is_none() {
            self.current = self.pool().and_then(|pool| pool.partial().take());
        }
    }

    /// Leaves the current page to others, if there is a pool.
    pub(crate) fn park(&mut self) {
        let Some(pool) = &self.pool else {
            return;
        };
        if let Some(current) = self.current.take() {
            pool.partial().put(current);
        }
    }

    /// The pool that pages come from and go to.
    pub(crate) fn pool(&self) -> Option<&PagePool> {
        self.pool.as_deref()
    }

    /// How many bytes can be given out in one piece; 0 if the next page is not known yet.
    pub(crate) fn contiguous(&self) -> usize {
        self.current.as_ref().map_or(0, |c| c.size - c.used)
    }

    #[inline]
    fn current(&mut self, atomic: bool) -> Result<&mut PartialPage> {
        self.borrow();
        if self.current.as_ref().is_some_and(|c| c.used == c.size) {
            self.next_page();
        }
        if self.current.is_none() {
            // INVARIANT: Nobody else has a reference to the fresh page.
            self.current = Some(PartialPage::new(PageRef::alloc(atomic)?));
        }
        self.current.as_mut().ok_or(ENOMEM)
    }

    /// Replaces the current page, which is full. It serves again if nobody reads it any more, else
    /// a page of the pool does that nobody reads any more. If there is none, no page is current.
    #[cold]
    fn next_page(&mut self) {
        let Some(full) = self.current.take() else {
            return;
        };
        let page = if full.page.is_exclusive() {
            Some(full.page)
        } else {
            // A single page was allocated when memory was short. In the pool, it would go on making
            // short spans.
            let pool = self.pool.as_ref().filter(|_| full.size > PAGE_SIZE);
            pool.and_then(|pool| pool.exchange(full.page))
        };
        // INVARIANT: `is_exclusive` has found the only reference: nobody reads the page any more,
        // and no span of it is left.
        self.current = page.map(PartialPage::new);
    }

    /// How many of `max` bytes [`TxPages::free`] has in one piece: at least one, if `max` is not 0.
    /// Context: sleeping, unless `atomic`. Errors: `ENOMEM`.
    #[inline]
    pub(crate) fn prepare(&mut self, max: usize, atomic: bool) -> Result<usize> {
        let current = self.current(atomic)?;
        Ok(max.min(current.size - current.used))
    }

    /// The next `n` bytes, or fewer where the page ends. They hold arbitrary, old content, and are
    /// nobody's until [`TxPages::give`].
    #[inline]
    pub(crate) fn free(&mut self, n: usize) -> &mut [u8] {
        let Some(current) = &mut self.current else {
            return &mut [];
        };
        let n = n.min(current.size - current.used);
        // SAFETY: We have a reference to the page. It is lowmem, as it was allocated without
        // `__GFP_HIGHMEM`, and so it is mapped.
        let start = unsafe { bindings::ksock_page_address(current.page.as_ptr()) }.cast::<u8>();
        // SAFETY: The page has `size` bytes at `start`, and `used + n <= size`. By the invariant of
        // `used` nobody else reads or writes the bytes from there on; `self`, through which they
        // are given out, is borrowed as long as the result is used. Whatever they hold is a valid
        // `u8`.
        unsafe { core::slice::from_raw_parts_mut(start.add(current.used), n) }
    }

    /// Gives out the next `n` bytes, or fewer where the page ends. `last` grows if they follow it
    /// directly, else a new span is returned.
    #[inline]
    pub(crate) fn give(&mut self, n: usize, last: Option<&mut PageSpan>) -> Option<PageSpan> {
        let current = self.current.as_mut()?;
        let from = current.used;
        let n = n.min(current.size - from);
        current.used = from + n;
        match last {
            Some(last)
                if last.raw.bv_page == current.page.as_ptr()
                    && last.end() == from
                    && !last.is_empty() =>
            {
                // INVARIANT: The new bytes follow those of `last`, in the same page.
                last.raw.bv_len += n as u32;
                None
            }
            _ => Some(PageSpan::new(current.page.get(), from, n)),
        }
    }
}

impl Drop for TxPages {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            pool.leave();
        }
    }
}
