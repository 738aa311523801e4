// SPDX-License-Identifier: GPL-2.0

//! Pages to send from.
//!
//! [`TxPages`] gives out the bytes of its current page one after the other, and [`PageSpan`] is a
//! run of bytes that were given out, with a reference to their page. Nobody writes to bytes that
//! were given out and handed on: TCP may read them as long as it has its own reference, until the
//! peer acknowledged them and the device forgot them. A page is used again from its beginning only
//! if its reference count says that nobody else is left.

use crate::bindings;
use core::ptr::NonNull;
use kernel::{error::Result, prelude::*};

/// A counted reference to a page, possibly a big one.
struct PageRef(
    /// INVARIANT: We own one reference count of this page.
    NonNull<bindings::page>,
);

impl PageRef {
    /// Takes another reference.
    fn get(&self) -> Self {
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
/// INVARIANT: `raw` describes a run inside of a page that [`TxPages`] allocated, of which this
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

/// The page bytes are given out from at the moment.
struct Current {
    page: PageRef,
    size: usize,
    /// INVARIANT: The bytes from here to `size` were never handed on since the page was allocated
    /// or found unused, and no [`PageSpan`] covers them.
    used: usize,
}

/// A source of bytes to fill and send.
pub(crate) struct TxPages {
    current: Option<Current>,
}

// SAFETY: The page is reached through this object only, and references to pages may be dropped on
// any thread.
unsafe impl Send for TxPages {}

/// Trains longer than this start on a page boundary.
const LARGE: usize = 16 * 1024;

impl TxPages {
    pub(crate) const fn new() -> Self {
        Self { current: None }
    }

    /// Prepares for a new train of about `hint` bytes: at a page boundary if it is a large one, so
    /// that it has as few fragments as possible.
    pub(crate) fn begin(&mut self, hint: usize) {
        if let Some(current) = &mut self.current {
            let align = if hint > LARGE { 4096 } else { 64 };
            // INVARIANT: Giving bytes up is always right.
            current.used = current.used.next_multiple_of(align).min(current.size);
        }
    }

    /// Gives back the current page.
    pub(crate) fn release(&mut self) {
        self.current = None;
    }

    fn current(&mut self, atomic: bool) -> Result<&mut Current> {
        if let Some(current) = &mut self.current {
            if current.used == current.size {
                // SAFETY: We have a reference to the page.
                if unsafe { bindings::ksock_page_exclusive(current.page.0.as_ptr()) } {
                    // INVARIANT: Ours is the only reference, so nobody reads the page any more.
                    current.used = 0;
                } else {
                    self.current = None;
                }
            }
        }
        if self.current.is_none() {
            let mut size = 0;
            // SAFETY: `size` is valid for a write.
            let page = unsafe { bindings::ksock_page_alloc(&mut size, atomic) };
            // INVARIANT: A fresh page, of which nobody knows, with one reference, which is ours.
            self.current = Some(Current {
                page: PageRef(NonNull::new(page).ok_or(ENOMEM)?),
                size: size as usize,
                used: 0,
            });
        }
        self.current.as_mut().ok_or(ENOMEM)
    }

    /// Lets `write` fill up to `max` contiguous bytes, or fewer where the page ends. If it succeeds
    /// they are given out: `last` grows if they follow it directly, else a new span is returned.
    ///
    /// Returns how many bytes it were. `write` must fill them all; what it leaves alone keeps an
    /// arbitrary, old content. `atomic`: the caller may not sleep.
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
