// SPDX-License-Identifier: GPL-2.0

//! From an offset to an address in memory that is made of contiguous runs.
//!
//! The memory is cut into blocks of one size, a power of two as large as the runs allow, so that
//! a lookup is a shift and a load. Blocks are cut where runs end: every run but the last one must
//! end at a block's end, and every run but the first one begins at a block's beginning. So the
//! block size divides the length of all runs between the first and the last; addresses need no
//! alignment at all. Pinned huge pages give blocks of their size, one run gives one block.

use kernel::prelude::*;

/// A run of `len` bytes at kernel address `addr`.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) addr: usize,
    pub(crate) len: u64,
}

/// The lookup table; see the module's documentation.
pub(crate) struct Blocks {
    /// The block size is `1 << shift`.
    shift: u32,
    /// What of the first block lies before offset 0.
    skip: u64,
    /// The number of bytes.
    len: u64,
    /// The address of each block; of the first and the last one a part need not exist.
    table: KVVec<usize>,
}

/// A single run is one block, however long: the largest size that is used.
const MAX_SHIFT: u32 = 62;

impl Blocks {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self {
        shift: 0,
        skip: 0,
        len: 0,
        table: KVVec::new(),
    };

    /// The table for `runs`, which are not empty; `runs` is called twice and must give the same.
    /// Neighbours that touch are taken as one run. Fails with `ENOMEM`, `EINVAL`. Context:
    /// sleeping.
    pub(crate) fn new<I: Iterator<Item = Run>>(runs: impl Fn() -> I) -> Result<Self> {
        let (mut first, mut inner, mut len) = (0, 0u64, 0u64);
        let (mut count, mut previous) = (0u64, 0u64);
        for run in merge(runs()) {
            len = len.checked_add(run.len).ok_or(EINVAL)?;
            match count {
                0 => first = run.len,
                1 => {}
                _ => inner |= previous,
            }
            previous = run.len;
            count += 1;
        }
        let shift = match count {
            // With two runs nothing but their common border is in the way.
            0..=2 => MAX_SHIFT,
            _ => inner.trailing_zeros().min(MAX_SHIFT),
        };
        let size = 1u64 << shift;
        // The first run ends at a block's end, unless it is the only one.
        let skip = if count > 1 {
            first.wrapping_neg() & (size - 1)
        } else {
            0
        };
        let blocks = skip.checked_add(len).ok_or(EINVAL)?.div_ceil(size);
        let mut table = KVVec::with_capacity(blocks.try_into()?, GFP_KERNEL)?;
        let mut before = skip;
        for run in merge(runs()) {
            let mut addr = run.addr.wrapping_sub(before as usize);
            let mut left = before + run.len;
            before = 0;
            while left > 0 {
                table.push(addr, GFP_KERNEL)?;
                addr = addr.wrapping_add(size as usize);
                left = left.saturating_sub(size);
            }
        }
        Ok(Self {
            shift,
            skip,
            len,
            table,
        })
    }

    /// Room for `max` pages, to be filled by [`Self::begin`], [`Self::push`] and [`Self::end`].
    /// Context: sleeping.
    pub(crate) fn with_capacity(max: usize) -> Result<Self> {
        Ok(Self {
            table: KVVec::with_capacity(max, GFP_KERNEL)?,
            ..Self::EMPTY
        })
    }

    /// Forgets all pages; what is pushed now is of size `1 << shift`. Context: any.
    pub(crate) fn begin(&mut self, shift: u32) {
        self.table.clear();
        self.len = 0;
        self.skip = 0;
        self.shift = shift;
    }

    /// Adds a page; fails with `ENOMEM` if there is no room. Context: any.
    pub(crate) fn push(&mut self, addr: usize) -> Result {
        self.table.push_within_capacity(addr).map_err(|_| ENOMEM)
    }

    /// The bytes begin `skip` bytes into the first page, and are `len`, or as many as there are
    /// pages for. Context: any.
    pub(crate) fn end(&mut self, skip: u64, len: u64) {
        let room = (self.table.len() as u64) << self.shift;
        self.skip = skip.min(room);
        self.len = len.min(room - self.skip);
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The block size is one shifted by this.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// Where `offset` is, and how many of the `len` bytes from there are contiguous: all of them,
    /// or up to a block's end. Fails with `EFAULT` if they are not all in the memory.
    #[inline]
    pub(crate) fn find(&self, offset: u64, len: usize) -> Result<(usize, usize)> {
        let len = len as u64;
        if offset > self.len || self.len - offset < len {
            return Err(EFAULT);
        }
        if len == 0 {
            return Ok((core::mem::align_of::<u64>(), 0));
        }
        // No overflow: both are below the size of the whole table.
        let place = self.skip + offset;
        let within = place & ((1 << self.shift) - 1);
        let mut index = (place >> self.shift) as usize;
        let base = *self.table.get(index).ok_or(EFAULT)?;
        let mut end = 1u64 << self.shift;
        // Blocks are often neighbours although not all are.
        while end - within < len {
            index += 1;
            match self.table.get(index) {
                Some(&next) if next == base.wrapping_add(end as usize) => end += 1 << self.shift,
                _ => break,
            }
        }
        Ok((
            base.wrapping_add(within as usize),
            len.min(end - within) as usize,
        ))
    }
}

/// Joins runs that touch.
fn merge(runs: impl Iterator<Item = Run>) -> impl Iterator<Item = Run> {
    let mut runs = runs.filter(|run| run.len > 0);
    let mut held = runs.next();
    core::iter::from_fn(move || {
        let mut run = held.take()?;
        for next in runs.by_ref() {
            if run.addr.wrapping_add(run.len as usize) == next.addr {
                run.len += next.len;
            } else {
                held = Some(next);
                break;
            }
        }
        Some(run)
    })
}
