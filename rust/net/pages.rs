// SPDX-License-Identifier: GPL-2.0

//! Pages to send from.
//!
//! [`TxPages`] gives out the bytes of its current page one after the other, and [`PageSpan`] is a
//! run of bytes that were given out, with a reference to their page. Nobody writes to bytes that
//! were given out and handed on: TCP may read them as long as it has its own reference, until the
//! peer acknowledged them and the device forgot them. A page is used again from its beginning only
//! if its reference count says that nobody else is left.

use crate::{bindings, partial::PartialPage, pool::PagePool};
use core::ptr::NonNull;
use kernel::{error::Result, page::PAGE_SIZE, prelude::*, sync::Arc};

/// A counted reference to a page, possibly a big one.
pub(crate) struct PageRef(
    /// INVARIANT: We own one reference count of this page, which [`PageRef::alloc`] allocated, or TCP.
    NonNull<bindings::page>,
);

// SAFETY: The reference count is atomic, and so is giving it back; the page belongs to no thread.
unsafe impl Send for PageRef {}

impl PageRef {
    /// A fresh page of 32 KiB, or a single one if no such is at hand. Errors: `ENOMEM`. Sleeps, unless
    /// `atomic`.
    pub(crate) fn alloc(atomic: bool) -> Result<Self> {
        // SAFETY: No requirements.
        let page = unsafe { bindings::ksock_page_alloc(atomic) };
        // INVARIANT: Its one reference is ours.
        NonNull::new(page).map(Self).ok_or(ENOMEM)
    }

    /// Gives the reference away, with the duty to make it a `PageRef` again.
    pub(crate) fn into_raw(self) -> *mut bindings::page {
        let page = self.0.as_ptr();
        core::mem::forget(self);
        page
    }

    /// Takes a reference over; `None` of a null pointer.
    ///
    /// # Safety
    ///
    /// `page` is null, or comes from [`PageRef::into_raw`], each time once, or from
    /// `skb_page_frag_refill()`, with a reference that is the caller's to give away.
    pub(crate) unsafe fn from_raw(page: *mut bindings::page) -> Option<Self> {
        // INVARIANT: By the contract of this function the reference is ours now.
        NonNull::new(page).map(Self)
    }

    /// Whether nobody else has a reference, so that nobody reads the page any more.
    pub(crate) fn is_exclusive(&self) -> bool {
        // SAFETY: By the type invariant the page is there.
        unsafe { bindings::ksock_page_exclusive(self.0.as_ptr()) }
    }

    /// Whether it was made of the kernel's emergency reserve.
    pub(crate) fn is_of_reserve(&self) -> bool {
        // SAFETY: By the type invariant the page is there.
        unsafe { bindings::ksock_page_of_reserve(self.0.as_ptr()) }
    }

    /// Bytes of the page.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: By the type invariant the page is there.
        unsafe { bindings::ksock_page_size(self.0.as_ptr()) }
    }

    /// Takes another reference.
    pub(crate) fn get(&self) -> Self {
        // SAFETY: By the type invariant the page is there.
        unsafe { bindings::ksock_page_get(self.0.as_ptr()) };
        // INVARIANT: Taken above.
        Self(self.0)
    }
}

impl Drop for PageRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours to give back.
        unsafe { bindings::ksock_page_put(self.0.as_ptr()) };
    }
}

/// Some bytes of a page; keeps the page.
///
/// INVARIANT: `raw` describes a run inside of a page that [`PageRef`] may have, of which this
/// object owns one reference count; or it has no page, and no length.
#[repr(transparent)]
pub struct PageSpan {
    raw: bindings::bio_vec,
}

// SAFETY: The reference count is atomic, and the bytes are read only.
unsafe impl Send for PageSpan {}
// SAFETY: As above.
unsafe impl Sync for PageSpan {}

impl PageSpan {
    /// No bytes of no page.
    pub(crate) const fn empty() -> Self {
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
        let raw = bindings::bio_vec {
            bv_page: page.0.as_ptr(),
            // CAST: Both are at most the size of a page.
            bv_len: len as u32,
            bv_offset: offset as u32,
        };
        // INVARIANT: The reference moves from `page` to the new object.
        core::mem::forget(page);
        Self { raw }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.raw.bv_len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.bv_len == 0
    }

    fn end(&self) -> usize {
        self.raw.bv_offset as usize + self.len()
    }

    /// Forgets the first `n` bytes, at most all.
    pub(crate) fn trim_front(&mut self, n: usize) {
        let n = n.min(self.len()) as u32;
        self.raw.bv_offset += n;
        self.raw.bv_len -= n;
    }

    /// Forgets the last `n` bytes, at most all.
    pub(crate) fn trim_back(&mut self, n: usize) {
        let n = n.min(self.len()) as u32;
        self.raw.bv_len -= n;
    }
}

impl Drop for PageSpan {
    fn drop(&mut self) {
        if let Some(page) = NonNull::new(self.raw.bv_page) {
            // INVARIANT: The reference moves back.
            drop(PageRef(page));
        }
    }
}

/// A source of bytes to fill and send.
pub(crate) struct TxPages {
    /// The page bytes are given out from at the moment.
    current: Option<PartialPage>,
    /// Where pages come from and go to, if not only from and to the kernel.
    pool: Option<Arc<PagePool>>,
}

/// Batches longer than this start on a page boundary.
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

    /// Prepares for a new batch of about `hint` bytes: at a page boundary if it is a large one, so
    /// that it has as few fragments as possible.
    pub(crate) fn begin(&mut self, hint: usize) {
        self.borrow();
        if let Some(current) = &mut self.current {
            let align = if hint > LARGE { 4096 } else { 64 };
            // INVARIANT: Giving bytes up is always right.
            current.used = current.used.next_multiple_of(align).min(current.size);
        }
    }

    /// Goes on with a page that another one has left.
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

    /// Where pages come from and go to.
    pub(crate) fn pool(&self) -> Option<&PagePool> {
        self.pool.as_deref()
    }

    /// How many bytes are given out next in one piece, if it is known.
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
            // INVARIANT: A fresh page, of which nobody knows.
            self.current = Some(PartialPage::new(PageRef::alloc(atomic)?));
        }
        self.current.as_mut().ok_or(ENOMEM)
    }

    /// The current page is full: it serves again if nobody reads it any more, or another one does
    /// that was filled before. Otherwise there is none.
    #[cold]
    fn next_page(&mut self) {
        let Some(full) = self.current.take() else {
            return;
        };
        let page = if full.page.is_exclusive() {
            Some(full.page)
        } else {
            // Single pages, made when memory is short, would go on making short spans.
            let pool = self.pool.as_ref().filter(|_| full.size > PAGE_SIZE);
            pool.and_then(|pool| pool.exchange(full.page))
        };
        // INVARIANT: Whoever is found to be exclusive has the only reference: nobody reads the page
        // any more, and no span of it is left.
        self.current = page.map(PartialPage::new);
    }

    /// Lets `write` fill up to `max` contiguous bytes, or fewer where the page ends. If it succeeds
    /// they are given out: `last` grows if they follow it directly, else a new span is returned.
    ///
    /// Returns how many bytes it were. `write` must fill them all; what it leaves alone keeps an
    /// arbitrary, old content. `atomic`: the caller may not sleep.
    #[inline]
    pub(crate) fn give<E: From<Error>>(
        &mut self,
        max: usize,
        atomic: bool,
        last: Option<&mut PageSpan>,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(usize, Option<PageSpan>), E> {
        let current = self.current(atomic)?;
        let from = current.used;
        let n = max.min(current.size - from);
        // SAFETY: We have a reference to the page, which is mapped, as all lowmem is.
        let start = unsafe { bindings::ksock_page_address(current.page.0.as_ptr()) }.cast::<u8>();
        // SAFETY: The page has `size` bytes at `start`, `from + n <= size`, and by the invariant of
        // `used` nobody else reads or writes the bytes from `from` on. Whatever they hold is a
        // valid `u8`.
        let bytes = unsafe { core::slice::from_raw_parts_mut(start.add(from), n) };
        write(bytes)?;
        current.used = from + n;
        match last {
            Some(last)
                if last.raw.bv_page == current.page.0.as_ptr()
                    && last.end() == from
                    && !last.is_empty() =>
            {
                // INVARIANT: The bytes follow and are in the same page.
                last.raw.bv_len += n as u32;
                Ok((n, None))
            }
            _ => Ok((n, Some(PageSpan::new(current.page.get(), from, n)))),
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
