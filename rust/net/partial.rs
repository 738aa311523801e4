// SPDX-License-Identifier: GPL-2.0

//! Pages that are filled in part.
//!
//! A connection that has sent something would have a page of 32 KiB for what it sends next, and TCP one
//! more in the socket, for what it copies (`sk_frag`). Of many connections most are idle at a time, so
//! pages with room belong to nobody: they wait here, and whoever has something to send borrows one.

use crate::{bindings, pages::PageRef};
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
    /// INVARIANT: The bytes from here to `size` were never handed on since the page was allocated
    /// or found unused, and no [`PageSpan`](crate::PageSpan) covers them.
    pub(crate) used: usize,
}

impl PartialPage {
    /// A page that nobody else may read.
    pub(crate) fn new(page: PageRef) -> Self {
        // INVARIANT: All of it is unused.
        Self {
            size: page.size(),
            page,
            used: 0,
        }
    }

    /// As TCP keeps what it copies to.
    fn into_raw(self) -> bindings::page_frag {
        bindings::page_frag {
            // Both fit, as such a page does; else TCP would find no room.
            offset: self.used.try_into().unwrap_or_default(),
            size: self.size.try_into().unwrap_or_default(),
            page: self.page.into_raw(),
        }
    }

    /// What TCP has left; `None` if it has no page.
    ///
    /// # Safety
    ///
    /// `raw` has no page, or a reference that is the caller's to give away, of a page that
    /// [`PageRef::alloc`] or `skb_page_frag_refill()` allocated, of whose `size` bytes those from `offset`
    /// on are nobody else's.
    unsafe fn from_raw(raw: bindings::page_frag) -> Option<Self> {
        // SAFETY: By the contract of this function.
        let page = unsafe { PageRef::from_raw(raw.page) }?;
        // INVARIANT: By the contract of this function.
        Some(Self {
            page,
            size: raw.size as usize,
            used: raw.offset as usize,
        })
    }
}

/// Open pages that wait: of one processor so many, as a thread that fills one may be interrupted by one
/// that fills another.
const EACH: usize = 2;

/// Those of one processor, in cache lines of their own.
///
/// Not behind a spinlock: who is interrupted here by one that wants the same would have to keep interrupts
/// off, and there is nothing to wait for.
#[repr(align(64))]
struct PerCpuPages {
    /// Somebody is at `pages`.
    busy: AtomicBool,
    pages: UnsafeCell<[Option<PartialPage>; EACH]>,
}

// SAFETY: Only who has set `busy` is at the pages, one at a time; they may be sent to any thread.
unsafe impl Sync for PerCpuPages {}

impl PerCpuPages {
    const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            pages: UnsafeCell::new([const { None }; EACH]),
        }
    }

    /// Has `f`, which takes a moment, look at the pages; `None` if somebody else does. Context: any.
    fn with<R>(&self, f: impl FnOnce(&mut [Option<PartialPage>; EACH]) -> R) -> Option<R> {
        if self.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: `busy` was not set, and is until below: nobody else is here.
        let result = f(unsafe { &mut *self.pages.get() });
        self.busy.store(false, Ordering::Release);
        Some(result)
    }
}

/// The open pages of all who share them. Memory of up to two pages for each processor.
pub(crate) struct PartialPages {
    cpus: [PerCpuPages; PartialPages::CPUS],
}

impl PartialPages {
    /// Processors beyond that share their places with others.
    const CPUS: usize = 64;

    /// None. (In place: it is large.)
    pub(crate) fn new() -> impl Init<Self> {
        init!(Self { cpus <- pin_init::init_array_from_fn(|_| PerCpuPages::new()) })
    }

    fn here(&self) -> Option<&PerCpuPages> {
        // The thread may be elsewhere a moment later, which costs time only.
        self.cpus
            .get(CpuId::current().as_u32() as usize % Self::CPUS)
    }

    /// One to fill, if there is any. Context: any.
    pub(crate) fn take(&self) -> Option<PartialPage> {
        let first = |pages: &mut [_; EACH]| pages.iter_mut().find_map(Option::take);
        self.here()?.with(first).flatten()
    }

    /// Leaves one for the next; it goes, if there is no place for it. Context: any.
    pub(crate) fn put(&self, page: PartialPage) {
        // A page of the emergency reserve goes back there.
        if page.page.is_of_reserve() || page.used >= page.size {
            return;
        }
        if let Some(here) = self.here() {
            here.with(|pages| {
                if let Some(place) = pages.iter_mut().find(|place| place.is_none()) {
                    *place = Some(page);
                }
            });
        }
    }

    /// Lends one to TCP for a call of `send`, which puts it into a socket and takes out what the socket
    /// has then. Context: any.
    pub(crate) fn lend<R>(
        this: Option<&Self>,
        send: impl FnOnce(*mut bindings::page_frag) -> R,
    ) -> R {
        let mut raw = this.and_then(Self::take).map_or(
            bindings::page_frag {
                page: ptr::null_mut(),
                offset: 0,
                size: 0,
            },
            PartialPage::into_raw,
        );
        let result = send(&mut raw);
        // SAFETY: `sk_page_frag_refill()` keeps a page, or replaces it by a fresh one, each with a
        // reference of the socket's; it begins at the front again only if nobody else has one. TCP has moved
        // the offset behind what it copied.
        if let (Some(page), Some(this)) = (unsafe { PartialPage::from_raw(raw) }, this) {
            this.put(page);
        }
        result
    }

    /// Lets go of all, but for those somebody is at. Context: any.
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

    /// What is left is found again as it was, and no more is kept than there are places.
    #[test]
    fn keeps_few() -> Result {
        let pages = open_pages()?;
        assert!(pages.take().is_none());
        pages.put(page(100)?);
        let first = pages.take().map(|page| page.used);
        // Unless this thread was moved to another processor between.
        assert!(first == Some(100) || all(&pages) == 1);
        for _ in 0..10 * EACH {
            pages.put(page(7)?);
        }
        assert!(all(&pages) >= EACH && all(&pages) < 10 * EACH);
        pages.clear();
        assert_eq!(all(&pages), 0);
        Ok(())
    }

    /// A full page has no use.
    #[test]
    fn keeps_room_only() -> Result {
        let pages = open_pages()?;
        let mut full = page(0)?;
        full.used = full.size;
        pages.put(full);
        assert_eq!(all(&pages), 0);
        Ok(())
    }

    /// A page that is lent comes back as it is then; what TCP made for itself stays, too.
    #[test]
    fn lends() -> Result {
        let pages = open_pages()?;
        let lent = page(64)?;
        let another = lent.page.get();
        pages.put(lent);
        PartialPages::lend(Some(&pages), |raw| {
            // SAFETY: It is valid for this call, and nobody else's.
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
            // SAFETY: As above. The page is whole, and given away.
            unsafe { *raw = PartialPage::new(made).into_raw() };
        });
        assert!(another.is_exclusive());
        Ok(())
    }
}
