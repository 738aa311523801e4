// SPDX-License-Identifier: GPL-2.0

//! Pages to send from, used again.
//!
//! TCP reads a page until the peer has acknowledged its bytes, so who fills it goes on with another
//! one meanwhile. A fresh page costs more than the copy into it: with `init_on_alloc`, which
//! distributions switch on, the kernel zeroes it first. Those that were filled wait in a
//! [`PagePool`], in a circle, and most are free again when their turn comes.

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
    slots: [AtomicPtr<bindings::page>; PagePool::SIZE],
    at: AtomicUsize,
}

impl PagePool {
    /// Pages that are kept, of 32 KiB each: as much as a connection of ten gigabits has on its way
    /// in a millisecond and a half.
    const SIZE: usize = 64;

    /// An empty one. Context: sleeping. Errors: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>> {
        let pool = Self {
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; Self::SIZE],
            at: AtomicUsize::new(0),
        };
        Ok(Arc::new(pool, GFP_KERNEL)?)
    }

    /// Leaves a filled page, in the place of the one that has waited longest: returns that if
    /// nobody reads it any more, and lets go of it otherwise. Its content is old.
    pub(crate) fn exchange(&self, full: PageRef) -> Option<PageRef> {
        let at = self.at.fetch_add(1, Ordering::Relaxed) % Self::SIZE;
        // Release for what was done with the page, acquire for what the one who left the other one
        // did with it.
        let old = self.slots[at].swap(full.into_raw(), Ordering::AcqRel);
        // SAFETY: By the invariant it was given away to the slot, which has another one now.
        unsafe { PageRef::from_raw(old) }.filter(PageRef::is_exclusive)
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        for slot in &self.slots {
            // SAFETY: By the invariant it was given away to the slot, which is empty now.
            drop(unsafe { PageRef::from_raw(slot.swap(ptr::null_mut(), Ordering::Acquire)) });
        }
    }
}

#[kunit_tests(rsiw_net_pool)]
mod tests {
    use super::*;

    /// Those that others read meanwhile do not come back, the others do, in order; and the pool
    /// lets go of all.
    #[test]
    fn free_pages_come_back() -> Result {
        let pool = PagePool::new()?;
        let mut read = KVec::new();
        for i in 0..PagePool::SIZE {
            let page = PageRef::alloc(false)?;
            if i % 2 == 0 {
                read.push(page.get(), GFP_KERNEL)?;
            }
            assert!(pool.exchange(page).is_none());
        }
        for i in 0..PagePool::SIZE {
            assert_eq!(pool.exchange(PageRef::alloc(false)?).is_some(), i % 2 != 0);
        }
        for page in &read {
            assert!(pool.exchange(page.get()).is_some() && !page.is_exclusive());
        }
        drop(pool);
        assert!(read.iter().all(PageRef::is_exclusive));
        Ok(())
    }
}
