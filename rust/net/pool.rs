// SPDX-License-Identifier: GPL-2.0

//! Pages to send from, used again.
//!
//! TCP reads a page until the peer has acknowledged its bytes, so a batch goes on with another one
//! meanwhile. A fresh page costs more than the copy into it: with `init_on_alloc`, which
//! distributions switch on, the kernel zeroes it first. So filled pages wait in a [`PagePool`], and
//! most are free again when their turn comes.
//!
//! The pages that were filled last wait in a short ring, which stays in the processor's cache. A
//! page that is still read at its turn there moves to a long ring. So as long as little is in
//! flight, few pages take turns, however much was in flight at other times.
//!
//! The long ring grows when a page is still read at its turn, and shrinks after several rounds
//! without such a page. When it is one slot too short, TCP still reads each page when its turn
//! comes, and a whole round takes fresh pages. So its length is mostly between the one that is
//! needed and twice that, and about one page of a hundred is a fresh one.

use crate::{bindings, page_ref::PageRef, partial::PartialPages};
use core::{
    ops::Range,
    ptr,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};
use kernel::{error::Result, prelude::*, sync::Arc};

/// The pages that many [`TxBatch`](crate::TxBatch)es filled last. All batches share them: a page
/// that one connection filled serves another, and the memory is bounded, however many connections
/// there are.
///
/// It has no lock: a slot changes hands by one atomic exchange. Context: any.
pub struct PagePool {
    /// INVARIANT: Null, or a reference that [`PageRef::into_raw`] gave away to this slot.
    ///
    /// The first [`PagePool::LEAST`] are the short ring, those behind them the long one.
    slots: [AtomicPtr<bindings::page>; PagePool::MOST],
    /// The slots whose turn it is, of the short ring and of the long one.
    at: AtomicUsize,
    at_long: AtomicUsize,
    /// Slots of both rings together: [`PagePool::LEAST`] to [`PagePool::MOST`].
    width: AtomicUsize,
    /// Pages in a row that were free at their turn in one of the rings, since the long one was last
    /// tried a slot shorter.
    hits: AtomicUsize,
    /// The most slots of both rings since the last user has left.
    widest: AtomicUsize,
    /// The number of batches that use the pool.
    users: AtomicUsize,
    /// Pages that are not full.
    partial: PartialPages,
}

impl PagePool {
    /// Slots of the short ring: pages of 32 KiB, as many as a few batches have.
    const LEAST: usize = 8;

    /// The most slots: the pages that TCP's limit for the send buffer of one connection lets be in
    /// flight (`tcp_wmem`, 4 MiB), and a few more.
    const MOST: usize = 144;

    /// After as many pages as these rounds have, none of them still read, the long ring is tried a
    /// slot shorter.
    const ROUNDS: usize = 8;

    /// Makes an empty pool. Context: sleeping. Errors: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let pool = init!(Self {
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; Self::MOST],
            at: AtomicUsize::new(0),
            at_long: AtomicUsize::new(Self::LEAST),
            width: AtomicUsize::new(Self::LEAST),
            hits: AtomicUsize::new(0),
            widest: AtomicUsize::new(Self::LEAST),
            users: AtomicUsize::new(0),
            partial <- PartialPages::new(),
        });
        Arc::init(pool, GFP_KERNEL)
    }

    /// Pages that are not full.
    pub(crate) fn partial(&self) -> &PartialPages {
        &self.partial
    }

    /// Takes a filled page, and returns one, with its old content, that nobody reads any more:
    /// the one that has waited longest in one of the rings. If both are still read, returns none.
    ///
    /// Concurrent calls may together change the long ring's length by one less than each alone
    /// would, which does no harm.
    pub(crate) fn exchange(&self, full: PageRef) -> Option<PageRef> {
        let width = self.width.load(Ordering::Relaxed);
        let mut old = self.swap_next(&self.at, 0..Self::LEAST, full)?;
        if !old.is_exclusive() {
            old = self.exchange_long(width, old)?;
        }
        if self.hits.fetch_add(1, Ordering::Relaxed) >= Self::ROUNDS * width {
            self.hits.store(0, Ordering::Relaxed);
            self.shorten(width);
        }
        Some(old)
    }

    /// As [`Self::exchange`], for the long ring, with `width` slots of both rings.
    fn exchange_long(&self, width: usize, full: PageRef) -> Option<PageRef> {
        // A ring that has no slot yet begins with one.
        let ring = Self::LEAST..width.max(Self::LEAST + 1);
        match self.swap_next(&self.at_long, ring, full) {
            Some(old) if old.is_exclusive() => return Some(old),
            // The ring has grown by this slot.
            None if width > Self::LEAST => {
                self.widest.fetch_max(width, Ordering::Relaxed);
            }
            _ => {
                self.hits.store(0, Ordering::Relaxed);
                if width < Self::MOST && self.widen(width, width + 1).is_ok() {
                    self.widest.fetch_max(width + 1, Ordering::Relaxed);
                }
            }
        }
        None
    }

    /// Puts a page into the slot whose turn it is in the ring of slots `ring`, and returns the one
    /// that was there.
    fn swap_next(&self, at: &AtomicUsize, ring: Range<usize>, new: PageRef) -> Option<PageRef> {
        let within = |at| if ring.contains(&at) { at } else { ring.start };
        let next = |at| Some(within(within(at) + 1));
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let at = match at.fetch_update(set, get, next) {
            Ok(at) | Err(at) => within(at),
        };
        self.slots
            .get(at)
            .and_then(|slot| Self::swap(slot, Some(new)))
    }

    /// Changes the length of both rings together. Errors: another thread was faster.
    fn widen(&self, from: usize, to: usize) -> Result<usize, usize> {
        self.width
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Takes the last slot out of the long ring, if it has one; `width` are those of both rings. A
    /// thread that is about to use that slot may leave a page there. It stays until the ring grows
    /// or the last user leaves.
    fn shorten(&self, width: usize) {
        if width > Self::LEAST && self.widen(width, width - 1).is_ok() {
            drop(
                self.slots
                    .get(width - 1)
                    .and_then(|slot| Self::swap(slot, None)),
            );
        }
    }

    /// Counts one more batch that uses the pool.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one batch less. When the last one leaves, the long ring ends, and its pages are freed
    /// as soon as nobody reads them any more.
    pub(crate) fn leave(&self) {
        // Acquire and release: this thread sees the pages that others put into slots before they
        // left.
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Before the ring is short: another user may come now, and widen it.
            let widest = self.widest.swap(Self::LEAST, Ordering::Relaxed);
            self.width.store(Self::LEAST, Ordering::Relaxed);
            self.partial.clear();
            // A ring without a slot may have used its first one.
            let widest = widest.max(Self::LEAST + 1);
            for slot in self.slots.iter().take(widest).skip(Self::LEAST) {
                if !slot.load(Ordering::Relaxed).is_null() {
                    drop(Self::swap(slot, None));
                }
            }
        }
    }

    fn swap(slot: &AtomicPtr<bindings::page>, new: Option<PageRef>) -> Option<PageRef> {
        let new = new.map_or(ptr::null_mut(), PageRef::into_raw);
        // Release: the other thread sees this one's accesses to the new page. Acquire: this thread
        // sees those of others to the old one.
        let old = slot.swap(new, Ordering::AcqRel);
        // SAFETY: By the invariant the slot had the reference `old`, and it has another or none
        // now.
        unsafe { PageRef::from_raw(old) }
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        for slot in &self.slots {
            drop(Self::swap(slot, None));
        }
    }
}

#[kunit_tests(rsiw_net_pool)]
mod tests {
    use super::*;

    /// Fills `n` pages one after the other. Each is read until `LATER` more are filled. Returns how
    /// many fresh ones that took.
    fn fill<const LATER: usize>(pool: &PagePool, n: usize) -> Result<usize> {
        let mut read = [const { None }; LATER];
        let (mut page, mut fresh) = (PageRef::alloc(false)?, 0);
        for i in 0..n {
            // The oldest is not read any more.
            read[i % LATER] = Some(page.get());
            page = match pool.exchange(page) {
                Some(page) => page,
                None => {
                    fresh += 1;
                    PageRef::alloc(false)?
                }
            };
            assert!(page.is_exclusive());
        }
        Ok(fresh)
    }

    fn width(pool: &PagePool) -> usize {
        pool.width.load(Ordering::Relaxed)
    }

    fn pages(pool: &PagePool) -> usize {
        let there = pool.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        there.filter(|page| !page.is_null()).count()
    }

    /// The ring is as long as it has to be, or up to twice that, whatever its length was before.
    #[test]
    fn as_long_as_needed() -> Result {
        let pool = PagePool::new()?;
        assert_eq!(fill::<2>(&pool, 100)?, PagePool::LEAST);
        assert_eq!(width(&pool), PagePool::LEAST);

        fill::<40>(&pool, 1000)?;
        assert!((40..=80).contains(&width(&pool)));
        // Only pages of rounds in which a shorter ring is tried are fresh. There are several here.
        assert!(fill::<40>(&pool, 60_000)? < 900);
        assert!((39..=80).contains(&width(&pool)));

        fill::<2>(&pool, 40_000)?;
        assert_eq!(width(&pool), PagePool::LEAST);
        assert_eq!(pages(&pool), PagePool::LEAST);
        Ok(())
    }

    /// The ring's length is bounded, and most pages go with the last user.
    #[test]
    fn is_bounded_and_goes() -> Result {
        let pool = PagePool::new()?;
        (pool.enter(), pool.enter());
        fill::<200>(&pool, 2000)?;
        assert_eq!(
            (width(&pool), pages(&pool)),
            (PagePool::MOST, PagePool::MOST)
        );
        pool.leave();
        assert_eq!(pages(&pool), PagePool::MOST);
        pool.leave();
        assert_eq!(
            (width(&pool), pages(&pool)),
            (PagePool::LEAST, PagePool::LEAST)
        );
        Ok(())
    }

    /// The pool drops its pages when it is dropped.
    #[test]
    fn ends() -> Result {
        let pool = PagePool::new()?;
        let page = PageRef::alloc(false)?;
        drop(pool.exchange(page.get()));
        assert!(!page.is_exclusive());
        drop(pool);
        assert!(page.is_exclusive());
        Ok(())
    }
}
