// SPDX-License-Identifier: GPL-2.0

//! Pages that are filled in part.
//!
//! A connection that has sent something would keep a page of 32 KiB for the next bytes it sends,
//! and TCP another one in the socket, for bytes that it copies (`sk_frag`). Most of many
//! connections are idle at any time. So pages with room left belong to no connection: they wait
//! here, and a sender borrows one.

use crate::{bindings, page_ref::PageRef};
use core::{
    cell::UnsafeCell,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};
use kernel::{cpu::CpuId, prelude::*};

/// A page with room at its end.
pub(crate) struct PartialPage {
    pub(crate) page: PageRef,
    pub(crate) size: usize,
    /// INVARIANT: No byte from here to `size` was given out since the page was allocated or found
    /// to be exclusive, and no [`PageSpan`](crate::PageSpan) covers one.
    pub(crate) used: usize,
}

impl PartialPage {
    /// Makes a partial page of `page`, to which the caller has the only reference.
    pub(crate) fn new(page: PageRef) -> Self {
        // INVARIANT: Nobody else has a reference, so no byte is given out.
        Self {
            size: page.size(),
            page,
            used: 0,
        }
    }

    /// Gives the page to TCP, which keeps the page it copies to in this form.
    fn into_raw(self) -> bindings::page_frag {
        bindings::page_frag {
            // Numbers up to 32 KiB fit. If one did not, TCP would find no room.
            offset: self.used.try_into().unwrap_or_default(),
            size: self.size.try_into().unwrap_or_default(),
            page: self.page.into_raw(),
        }
    }

    /// Takes over the page that TCP has left; `None` if there is none.
    ///
    /// # Safety
    ///
    /// `raw` must have no page, or a reference that the caller gives away. [`PageRef::alloc`] or
    /// `skb_page_frag_refill()` must have allocated the page. Nobody else may use those of its
    /// `size` bytes that begin at `offset`.
    unsafe fn from_raw(raw: bindings::page_frag) -> Option<Self> {
        // SAFETY: By the contract of this function `raw` has no page, or a reference to give away.
        let page = unsafe { PageRef::from_raw(raw.page) }?;
        // INVARIANT: By the contract of this function nobody else uses the bytes from `offset` on.
        Some(Self {
            page,
            size: raw.size as usize,
            used: raw.offset as usize,
        })
    }
}

/// Partial pages kept per CPU. Two, because a softirq may interrupt a thread that is filling the
/// first.
const EACH: usize = 2;

/// The partial pages of one CPU, in cache lines of their own.
///
/// A flag guards them, not a spinlock. An interrupt may want them while the thread it interrupted
/// has them, so a spinlock would have to keep interrupts off. And nobody needs to wait: a sender
/// that finds them taken does without.
#[repr(align(64))]
struct PerCpuPages {
    /// Somebody accesses `pages`.
    busy: AtomicBool,
    pages: UnsafeCell<[Option<PartialPage>; EACH]>,
}

// SAFETY: Only the thread that has set `busy` accesses the pages, and any thread may have them.
unsafe impl Sync for PerCpuPages {}

impl PerCpuPages {
    const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            pages: UnsafeCell::new([const { None }; EACH]),
        }
    }

    /// Calls `f`, which must be short, with the pages. `None` if somebody else accesses them.
    /// Context: any.
    fn with<R>(&self, f: impl FnOnce(&mut [Option<PartialPage>; EACH]) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `busy` was not set before and is set until `f` returns: nobody else is here.
        let result = f(unsafe { &mut *self.pages.get() });
        self.busy.store(false, Ordering::Release);
        Some(result)
    }

    /// As [`PartialPages::take`].
    fn take(&self) -> Option<PartialPage> {
        let first = |pages: &mut [_; EACH]| pages.iter_mut().find_map(Option::take);
        self.with(first).flatten()
    }

    /// As [`PartialPages::put`]; `is_new`, unless the page was kept here before.
    fn put(&self, page: PartialPage, is_new: bool) {
        // A page of the emergency reserve goes back there. It is never kept.
        if page.used >= page.size || is_new && page.page.is_of_reserve() {
            return;
        }
        self.with(|pages| {
            if let Some(place) = pages.iter_mut().find(|place| place.is_none()) {
                *place = Some(page);
            }
        });
    }
}

/// The partial pages of all batches and sockets that share a pool: at most two per CPU.
pub(crate) struct PartialPages {
    cpus: [PerCpuPages; PartialPages::CPUS],
}

impl PartialPages {
    /// CPUs beyond this number share pages with others.
    const CPUS: usize = 64;

    /// Makes an empty set, in place, because it is large.
    pub(crate) fn new() -> impl Init<Self> {
        init!(Self { cpus <- pin_init::init_array_from_fn(|_| PerCpuPages::new()) })
    }

    fn here(&self) -> Option<&PerCpuPages> {
        // The thread may be on another CPU a moment later, which costs time only.
        self.cpus
            .get(CpuId::current().as_u32() as usize % Self::CPUS)
    }

    /// Takes a partial page, if there is one. Context: any.
    pub(crate) fn take(&self) -> Option<PartialPage> {
        self.here()?.take()
    }

    /// Keeps a partial page for the next sender, or drops it if there is no room. Context: any.
    pub(crate) fn put(&self, page: PartialPage) {
        if let Some(here) = self.here() {
            here.put(page, true);
        }
    }

    /// Lends a page to TCP during `send`. `send` gets it as a `page_frag`, swaps that into a
    /// socket, and leaves there the page that the socket has afterwards. Context: any.
    pub(crate) fn lend<R>(
        this: Option<&Self>,
        send: impl FnOnce(*mut bindings::page_frag) -> R,
    ) -> R {
        let here = this.and_then(Self::here);
        let mut raw = here.and_then(PerCpuPages::take).map_or(
            bindings::page_frag {
                page: ptr::null_mut(),
                offset: 0,
                size: 0,
            },
            PartialPage::into_raw,
        );
        let lent = (raw.page, raw.offset);
        let result = send(&mut raw);
        // A page that was full and freed may come again, empty.
        let is_new = raw.page != lent.0 || raw.offset <= lent.1;
        // SAFETY: `raw` has a reference to its page: `sk_page_frag_refill()` keeps the page or puts
        // a fresh one in its place. TCP has moved the offset past the bytes that it copied.
        // `sk_page_frag_refill()` sets it to 0 only if nobody else has a reference.
        if let (Some(page), Some(here)) = (unsafe { PartialPage::from_raw(raw) }, here) {
            here.put(page, is_new);
        }
        result
    }

    /// Drops all pages, except those of a CPU where somebody accesses them just now. Context: any.
    pub(crate) fn clear(&self) {
        for places in &self.cpus {
            drop(places.with(|pages| core::mem::replace(pages, [const { None }; EACH])));
        }
    }
}

#[kunit_tests(rsiw_net_partial)]
mod tests {
    use super::*;
    use kernel::sync::Arc;

    fn open_pages() -> Result<Arc<PartialPages>> {
        Arc::init(PartialPages::new(), GFP_KERNEL)
    }

    fn page(used: usize) -> Result<PartialPage> {
        let mut page = PartialPage::new(PageRef::alloc(false)?);
        page.used = used;
        Ok(page)
    }

    fn all(pages: &PartialPages) -> usize {
        let held = |places: &PerCpuPages| places.with(|pages| pages.iter().flatten().count());
        pages.cpus.iter().filter_map(held).sum()
    }

    /// A page that was put is found as it was, and only a few are kept.
    #[test]
    fn keeps_few() -> Result {
        let pages = open_pages()?;
        assert!(pages.take().is_none());
        pages.put(page(100)?);
        let first = pages.take().map(|page| page.used);
        // It fails only if this thread was moved to another CPU in between.
        assert!(first == Some(100) || all(&pages) == 1);
        for _ in 0..10 * EACH {
            pages.put(page(7)?);
        }
        assert!(all(&pages) >= EACH && all(&pages) < 10 * EACH);
        pages.clear();
        assert_eq!(all(&pages), 0);
        Ok(())
    }

    /// A full page is not kept.
    #[test]
    fn keeps_room_only() -> Result {
        let pages = open_pages()?;
        let mut full = page(0)?;
        full.used = full.size;
        pages.put(full);
        assert_eq!(all(&pages), 0);
        Ok(())
    }

    /// A lent page comes back as it is then. Without a pool, TCP's page is dropped.
    #[test]
    fn lends() -> Result {
        let pages = open_pages()?;
        let lent = page(64)?;
        let another = lent.page.get();
        pages.put(lent);
        PartialPages::lend(Some(&pages), |raw| {
            // SAFETY: `raw` is valid during this call, and nobody else uses it.
            let raw = unsafe { &mut *raw };
            assert!(!raw.page.is_null() || all(&pages) == 1);
            raw.offset += 8;
        });
        assert!(!another.is_exclusive());
        assert!(all(&pages) == 1);
        pages.clear();
        assert!(another.is_exclusive());

        let made = PageRef::alloc(false)?;
        let another = made.get();
        PartialPages::lend(None, |raw| {
            // SAFETY: `raw` is valid during this call, and nobody else uses it. The reference to
            // `made` moves to it.
            unsafe { *raw = PartialPage::new(made).into_raw() };
        });
        assert!(another.is_exclusive());
        Ok(())
    }
}
