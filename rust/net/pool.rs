// SPDX-License-Identifier: GPL-2.0

//! Pages to send from, used again.
//!
//! TCP reads a page until the peer has acknowledged its bytes, so who fills it goes on with another
//! one meanwhile. A fresh page costs more than the copy into it: with `init_on_alloc`, which
//! distributions switch on, the kernel zeroes it first. Those that were filled wait in a
//! [`PagePool`], in a circle, and most are free again when their turn comes; the circle grows while they
//! are not, as a short one stays in the processor's cache.

use crate::{bindings, pages::PageRef};
use core::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering},
};
use kernel::{error::Result, prelude::*, sync::Arc};

/// The pages that many [`TrainBuf`](crate::TrainBuf)s filled last. They share it: what one connection
/// left is there for another one, and the memory is bounded, however many there are.
///
/// Without a lock: a slot changes hands by one atomic exchange. Context: any.
pub struct PagePool {
    /// INVARIANT: Null, or what [`PageRef::into_raw`] gave away to this slot.
    slots: [AtomicPtr<bindings::page>; PagePool::MOST],
    at: AtomicUsize,
    /// Slots of the circle, from the first one: [`PagePool::LEAST`] to [`PagePool::MOST`].
    width: AtomicUsize,
}

impl PagePool {
    /// Slots of a new pool: pages of 32 KiB, as many as a few trains have.
    const LEAST: usize = 8;

    /// Slots at the most: what TCP's limit for a connection's send buffer lets be on its way
    /// (`tcp_wmem`, 4 MiB), and a bit.
    const MOST: usize = 144;

    /// An empty one. Context: sleeping. Errors: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let pool = Self {
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; Self::MOST],
            at: AtomicUsize::new(0),
            width: AtomicUsize::new(Self::LEAST),
        };
        Ok(Arc::new(pool, GFP_KERNEL)?)
    }

    /// Leaves a filled page, in the place of the one that has waited longest: returns that if
    /// nobody reads it any more, and lets go of it otherwise. Its content is old.
    pub(crate) fn exchange(&self, full: PageRef) -> Option<PageRef> {
        let width = self.width.load(Ordering::Relaxed);
        let at = self.at.fetch_add(1, Ordering::Relaxed) % width;
        let old = self
            .slots
            .get(at)
            .and_then(|slot| Self::swap(slot, Some(full)))?;
        if old.is_exclusive() {
            return Some(old);
        }
        // Too early. Two who find that at a time may count it once, which is as good.
        self.width
            .store((width + 1).min(Self::MOST), Ordering::Relaxed);
        None
    }

    /// Lets go of the pages that only a busier time needed. They are freed when nobody reads them any more.
    pub(crate) fn trim(&self) {
        if self.width.swap(Self::LEAST, Ordering::Relaxed) == Self::LEAST {
            return;
        }
        for slot in self.slots.iter().skip(Self::LEAST) {
            drop(Self::swap(slot, None));
        }
    }

    fn swap(slot: &AtomicPtr<bindings::page>, new: Option<PageRef>) -> Option<PageRef> {
        let new = new.map_or(ptr::null_mut(), PageRef::into_raw);
        // Release for what was done with the page, acquire for what the one who left the other one
        // did with it.
        let old = slot.swap(new, Ordering::AcqRel);
        // SAFETY: By the invariant it was given away to the slot, which has another one now.
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

    /// Those that nobody reads come back, in order, and the circle stays short.
    #[test]
    fn free_pages_come_back() -> Result {
        let pool = PagePool::new()?;
        for i in 0..3 * PagePool::LEAST {
            let back = pool.exchange(PageRef::alloc(false)?);
            assert_eq!(back.is_some(), i >= PagePool::LEAST);
        }
        assert_eq!(pool.width.load(Ordering::Relaxed), PagePool::LEAST);
        Ok(())
    }

    /// Those that others read do not, and the circle grows, but not for ever. Afterwards they do; and
    /// the pool lets go of all.
    #[test]
    fn grows_while_pages_are_read() -> Result {
        let pool = PagePool::new()?;
        let mut read = KVec::new();
        for _ in 0..4 * PagePool::MOST {
            let page = PageRef::alloc(false)?;
            read.push(page.get(), GFP_KERNEL)?;
            assert!(pool.exchange(page).is_none());
        }
        assert_eq!(pool.width.load(Ordering::Relaxed), PagePool::MOST);
        read.clear();
        for _ in 0..PagePool::MOST {
            let page = pool.exchange(PageRef::alloc(false)?).ok_or(EINVAL)?;
            read.push(page, GFP_KERNEL)?;
        }
        assert!(read.iter().all(PageRef::is_exclusive));
        for page in &read {
            drop(pool.exchange(page.get()));
        }
        pool.trim();
        let left = read.iter().filter(|page| !page.is_exclusive()).count();
        assert!(left <= PagePool::LEAST);
        drop(pool);
        assert!(read.iter().all(PageRef::is_exclusive));
        Ok(())
    }
}
