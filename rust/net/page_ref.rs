// SPDX-License-Identifier: GPL-2.0

//! References to pages.

use crate::bindings;
use core::ptr::NonNull;
use kernel::{error::Result, prelude::*};

/// A counted reference to a page, possibly a compound one.
pub(crate) struct PageRef(
    /// INVARIANT: This object owns one reference to the page, which [`PageRef::alloc`] or TCP
    /// allocated, or which is of others and has an address.
    NonNull<bindings::page>,
);

// SAFETY: The reference count is atomic, and any thread may drop a reference.
unsafe impl Send for PageRef {}

impl PageRef {
    /// Allocates a page of 32 KiB, or a single one if no larger one is at hand. Context: sleeping,
    /// unless `atomic`. Errors: `ENOMEM`.
    pub(crate) fn alloc(atomic: bool) -> Result<Self> {
        // SAFETY: No requirements.
        let page = unsafe { bindings::ksock_page_alloc(atomic) };
        // INVARIANT: The fresh page has one reference, which is ours.
        NonNull::new(page).map(Self).ok_or(ENOMEM)
    }

    /// Gives the reference away. The receiver must make it a `PageRef` again.
    pub(crate) fn into_raw(self) -> *mut bindings::page {
        let page = self.0.as_ptr();
        core::mem::forget(self);
        page
    }

    /// Takes over the reference to `page`; `None` if that is null.
    ///
    /// # Safety
    ///
    /// `page` must be null, or come from [`PageRef::into_raw`], each time once, or come from
    /// `skb_page_frag_refill()` or `ksock_page_of()` with a reference that the caller gives away.
    pub(crate) unsafe fn from_raw(page: *mut bindings::page) -> Option<Self> {
        // INVARIANT: By the contract of this function the reference is ours now.
        NonNull::new(page).map(Self)
    }

    /// The page, to which this has a reference.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::page {
        self.0.as_ptr()
    }

    /// Whether nobody else has a reference, so that nobody reads the page any more. False for a
    /// page of the emergency reserve.
    pub(crate) fn is_exclusive(&self) -> bool {
        // SAFETY: By the type invariant we have a reference to the page.
        unsafe { bindings::ksock_page_exclusive(self.0.as_ptr()) }
    }

    /// Whether the page is of the kernel's emergency reserve (`page_is_pfmemalloc()`).
    pub(crate) fn is_of_reserve(&self) -> bool {
        // SAFETY: By the type invariant we have a reference to the page.
        unsafe { bindings::ksock_page_of_reserve(self.0.as_ptr()) }
    }

    /// The page's size in bytes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: By the type invariant we have a reference to the page.
        unsafe { bindings::ksock_page_size(self.0.as_ptr()) }
    }

    /// Takes another reference.
    pub(crate) fn get(&self) -> Self {
        // SAFETY: By the type invariant we have a reference to the page.
        unsafe { bindings::ksock_page_get(self.0.as_ptr()) };
        // INVARIANT: The new object owns the reference taken above.
        Self(self.0)
    }
}

impl Drop for PageRef {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours to give back.
        unsafe { bindings::ksock_page_put(self.0.as_ptr()) };
    }
}
