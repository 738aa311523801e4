// SPDX-License-Identifier: GPL-2.0

//! Pages to send from, used again.
//!
//! TCP reads a page until the peer has acknowledged its bytes, so who fills it goes on with another
//! one meanwhile. A fresh page costs more than the copy into it: with `init_on_alloc`, which
//! distributions switch on, the kernel zeroes it first. Those that were filled wait in a
//! [`PagePool`], in a circle, and most are free again when their turn comes; the circle grows while they
//! are not, and gets shorter while they are, as a short one stays in the processor's cache. Where it is one
//! too short, all pages of that round come one too early: so it is mostly between the length that is needed
//! and twice that, and one page of a hundred is a fresh one.

use crate::{bindings, pages::PageRef, partial::PartialPages};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};
use kernel::{error::Result, prelude::*, sync::Arc};

/// The pages that many [`TxBatch`](crate::TxBatch)s filled last. They share it: what one connection
/// left is there for another one, and the memory is bounded, however many there are.
///
/// Without a lock: a slot changes hands by one atomic exchange. Context: any.
pub struct PagePool {
    /// INVARIANT: Null, or what [`PageRef::into_raw`] gave away to this slot.
    slots: [AtomicPtr<bindings::page>; PagePool::MOST],
    /// The slot whose turn it is.
    at: AtomicUsize,
    /// Slots of the circle, from the first one: [`PagePool::LEAST`] to [`PagePool::MOST`].
    width: AtomicUsize,
    /// Pages that came back since one did not, or since the circle was tried a slot shorter.
    hits: AtomicUsize,
    /// Those who fill pages.
    users: AtomicUsize,
    /// Those that are not full.
    partial: PartialPages,
}

impl PagePool {
    /// Slots of a new pool: pages of 32 KiB, as many as a few batches have.
    const LEAST: usize = 8;

    /// Slots at the most: what TCP's limit for a connection's send buffer lets be on its way
    /// (`tcp_wmem`, 4 MiB), and a bit.
    const MOST: usize = 144;

    /// So many times around without a page that is still read, and the circle is tried a slot shorter.
    const ROUNDS: usize = 8;

    /// An empty one. Context: sleeping. Errors: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let pool = init!(Self {
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; Self::MOST],
            at: AtomicUsize::new(0),
            width: AtomicUsize::new(Self::LEAST),
            hits: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            partial <- PartialPages::new(),
        });
        Arc::init(pool, GFP_KERNEL)
    }

    /// Those that are not full.
    pub(crate) fn partial(&self) -> &PartialPages {
        &self.partial
    }

    /// Leaves a filled page, in the place of the one that has waited longest: returns that if
    /// nobody reads it any more, and lets go of it otherwise. Its content is old.
    ///
    /// Those who do it at a time may change the circle's length by one less than each would, which is as
    /// good.
    pub(crate) fn exchange(&self, full: PageRef) -> Option<PageRef> {
        let width = self.width.load(Ordering::Relaxed);
        let within = |at| if at < width { at } else { 0 };
        let next = |at| Some(within(within(at) + 1));
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        let at = match self.at.fetch_update(set, get, next) {
            Ok(at) | Err(at) => within(at),
        };
        let old = self
            .slots
            .get(at)
            .and_then(|slot| Self::swap(slot, Some(full)))?;
        if old.is_exclusive() {
            if self.hits.fetch_add(1, Ordering::Relaxed) >= Self::ROUNDS * width {
                self.hits.store(0, Ordering::Relaxed);
                self.shorten(width);
            }
            return Some(old);
        }
        self.hits.store(0, Ordering::Relaxed);
        if width < Self::MOST {
            let _ = self.widen(width, width + 1);
        }
        None
    }

    /// Errors: somebody else was faster.
    fn widen(&self, from: usize, to: usize) -> Result<usize, usize> {
        self.width
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Takes the last slot out of the circle, of `width`, if it is longer than the least. Who is about to use
    /// that slot leaves a page there, which goes when the circle gets longer, or with the last user.
    fn shorten(&self, width: usize) {
        if width > Self::LEAST && self.widen(width, width - 1).is_ok() {
            drop(
                self.slots
                    .get(width - 1)
                    .and_then(|slot| Self::swap(slot, None)),
            );
        }
    }

    /// There is one more who fills pages.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them is gone. The last one leaves no more than the least; the others are freed when nobody
    /// reads them any more.
    pub(crate) fn leave(&self) {
        // Acquire and release: what those who left before put into slots is seen below.
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.width.store(Self::LEAST, Ordering::Relaxed);
            self.partial.clear();
            for slot in self.slots.iter().skip(Self::LEAST) {
                if !slot.load(Ordering::Relaxed).is_null() {
                    drop(Self::swap(slot, None));
                }
            }
        }
    }

    fn swap(slot: &AtomicPtr<bindings::page>, new: Option<PageRef>) -> Option<PageRef> {
        let new = new.map_or(ptr::null_mut(), PageRef::into_raw);
        // Release for what was done with the page, acquire for what the one who left the other one
        // did with it.
        let old = slot.swap(new, Ordering::AcqRel);
        // SAFETY: By the invariant it was given away to the slot, which has another one or none now.
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

    /// Fills `n` pages one after the other, each read by somebody until `LATER` more are filled. Returns
    /// how many had to be fresh ones.
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

    /// The circle is as long as it has to be, or up to twice that, whatever it was before.
    #[test]
    fn as_long_as_needed() -> Result {
        let pool = PagePool::new()?;
        assert_eq!(fill::<2>(&pool, 100)?, PagePool::LEAST);
        assert_eq!(width(&pool), PagePool::LEAST);

        fill::<40>(&pool, 1000)?;
        assert!((40..=80).contains(&width(&pool)));
        // But for those of a round now and then, when a shorter circle is tried: several times here.
        assert!(fill::<40>(&pool, 60_000)? < 900);
        assert!((39..=80).contains(&width(&pool)));

        fill::<2>(&pool, 40_000)?;
        assert_eq!(width(&pool), PagePool::LEAST);
        assert_eq!(pages(&pool), PagePool::LEAST);
        Ok(())
    }

    /// It has an end, and most of it goes with those who filled pages.
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

    /// It lets go of all.
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
