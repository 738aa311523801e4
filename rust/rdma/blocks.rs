// SPDX-License-Identifier: GPL-2.0

//! From an offset to an address, in memory that consists of contiguous runs.
//!
//! The memory is cut into blocks of one size, a power of two as large as the runs allow, so that a
//! lookup is a shift and a load. A block must not reach beyond a run. So each run but the last ends
//! at a block's end, and each run but the first begins at a block's beginning: the block size
//! divides the length of all runs between the first and the last. Addresses need no alignment.
//! Pinned huge pages give blocks of their size, and a single run gives one block.

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
    /// Bytes of the first block that lie before offset 0.
    skip: u64,
    /// The number of bytes.
    len: u64,
    /// The address of each block. The first and the last block may exist in part only.
    table: KVVec<usize>,
}

/// The largest block size that is used. A single run is one block, however long it is.
const MAX_SHIFT: u32 = 62;

impl Blocks {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self {
        shift: 0,
        skip: 0,
        len: 0,
        table: KVVec::new(),
    };

    /// Makes the table for `runs`. It is called twice and must give the same runs. Neighbours that
    /// touch become one run. Errors: `ENOMEM`, `EINVAL`. Context: sleeping.
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
            // Two runs only need a block border between them, which any size allows.
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
        let mut table = KVVec::with_capacity(blocks.try_into()?, GFP_KERNEL_ACCOUNT)?;
        let mut before = skip;
        for run in merge(runs()) {
            let mut addr = run.addr.wrapping_sub(before as usize);
            let mut left = before + run.len;
            before = 0;
            while left > 0 {
                table.push(addr, GFP_KERNEL_ACCOUNT)?;
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

    /// Makes room for `max` pages, which [`Self::begin`], [`Self::push`] and [`Self::end`] fill.
    /// Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn with_capacity(max: usize) -> Result<Self> {
        Ok(Self {
            table: KVVec::with_capacity(max, GFP_KERNEL)?,
            ..Self::EMPTY
        })
    }

    /// Removes all pages. Pages that are pushed from now on have `1 << shift` bytes. Context: any.
    pub(crate) fn begin(&mut self, shift: u32) {
        self.table.clear();
        self.len = 0;
        self.skip = 0;
        self.shift = shift;
    }

    /// Adds a page. Errors: `ENOMEM` if there is no room. Context: any.
    pub(crate) fn push(&mut self, addr: usize) -> Result {
        self.table.push_within_capacity(addr).map_err(|_| ENOMEM)
    }

    /// Ends filling. The memory begins `skip` bytes into the first page and has `len` bytes, or as
    /// many as there are pages for. Context: any.
    pub(crate) fn end(&mut self, skip: u64, len: u64) {
        let room = (self.table.len() as u64) << self.shift;
        self.skip = skip.min(room);
        self.len = len.min(room - self.skip);
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The address of `offset`, and how many of the `len` bytes from there on are contiguous: all,
    /// or those up to a block's end. Errors: `EFAULT` if they are not all in the memory.
    #[inline]
    pub(crate) fn find(&self, offset: u64, len: usize) -> Result<(usize, usize)> {
        let len = len as u64;
        if offset > self.len || self.len - offset < len {
            return Err(EFAULT);
        }
        if len == 0 {
            return Ok((core::mem::align_of::<u64>(), 0));
        }
        // No overflow: both are less than the size of the whole table.
        let place = self.skip + offset;
        let within = place & ((1 << self.shift) - 1);
        let mut index = (place >> self.shift) as usize;
        let base = *self.table.get(index).ok_or(EFAULT)?;
        let mut end = 1u64 << self.shift;
        // Blocks are often neighbours, even where not all are.
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

#[kunit_tests(rdma_blocks)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn run(addr: usize, len: u64) -> Run {
        Run { addr, len }
    }

    /// The address of the byte at `offset`, found the slow way.
    fn expected(runs: &[Run], mut offset: u64) -> usize {
        for run in runs {
            if offset < run.len {
                return run.addr + offset as usize;
            }
            offset -= run.len;
        }
        0
    }

    /// Looks up all offsets around each border.
    fn check(runs: &[Run]) -> Result<Blocks> {
        let blocks = Blocks::new(|| runs.iter().copied())?;
        let len: u64 = runs.iter().map(|run| run.len).sum();
        assert_eq!(blocks.len(), len);
        let mut border = 0u64;
        for run in runs {
            for near in border.saturating_sub(2)..border + 3 {
                if near >= len {
                    continue;
                }
                let (addr, n) = blocks.find(near, 1)?;
                assert_eq!(addr, expected(runs, near));
                assert_eq!(n, 1);
                // All bytes to the end: the first piece is within one run.
                let (addr, n) = blocks.find(near, (len - near) as usize)?;
                assert_eq!(addr, expected(runs, near));
                assert!(n >= 1 && n as u64 <= len - near);
                assert_eq!(addr + n - 1, expected(runs, near + n as u64 - 1));
            }
            border += run.len;
        }
        assert!(blocks.find(len, 1).is_err());
        assert!(blocks.find(len - 1, 2).is_err());
        assert!(blocks.find(u64::MAX, 1).is_err());
        assert!(blocks.find(1, usize::MAX).is_err());
        assert!(blocks.find(len, 0).is_ok());
        Ok(blocks)
    }

    #[test]
    fn one_run_is_one_block() -> Result {
        let blocks = check(&[run(0x1234_5678_9abc, 5 * PAGE + 17)])?;
        assert_eq!(blocks.table.len(), 1);
        let (_, n) = blocks.find(3, 20_000)?;
        assert_eq!(n, 20_000);
        Ok(())
    }

    #[test]
    fn two_runs_are_two_blocks() -> Result {
        let blocks = check(&[run(0x10_0f00, 0x100), run(0x50_0000, 3 * PAGE + 5)])?;
        assert_eq!(blocks.table.len(), 2);
        Ok(())
    }

    #[test]
    fn pages_are_blocks_of_a_page() -> Result {
        let runs = [
            run(0x10_0123, PAGE - 0x123),
            run(0x30_0000, PAGE),
            run(0x20_0000, PAGE),
            run(0x50_0000, 77),
        ];
        let blocks = check(&runs)?;
        assert_eq!(blocks.shift, 12);
        assert_eq!(blocks.table.len(), 4);
        Ok(())
    }

    #[test]
    fn huge_pages_are_large_blocks() -> Result {
        const HUGE: u64 = 2 << 20;
        let runs = [
            run(0x1000_0800, HUGE - 0x800),
            run(0x3000_0000, HUGE),
            run(0x2000_0000, 3 * HUGE),
            run(0x5000_0000, HUGE + PAGE),
        ];
        let blocks = check(&runs)?;
        assert_eq!(blocks.shift, 21);
        assert_eq!(blocks.table.len(), 7);
        // Blocks that are neighbours are one piece.
        let (_, n) = blocks.find(2 * HUGE, 5 << 20)?;
        assert_eq!(n, 5 << 20);
        Ok(())
    }

    #[test]
    fn neighbours_are_joined() -> Result {
        let runs = [
            run(0x10_0000, PAGE),
            run(0x10_1000, PAGE),
            run(0x10_2000, 8),
        ];
        assert_eq!(check(&runs)?.table.len(), 1);
        Ok(())
    }

    #[test]
    fn page_list() -> Result {
        let mut blocks = Blocks::with_capacity(3)?;
        blocks.begin(12);
        for addr in [0x7000, 0x9000, 0xa000] {
            blocks.push(addr)?;
        }
        assert!(blocks.push(0xf000).is_err());
        blocks.end(0x10, 2 * PAGE);
        assert_eq!(blocks.find(0, 1)?, (0x7010, 1));
        assert_eq!(blocks.find(PAGE - 0x10, 100)?, (0x9000, 100));
        assert_eq!(blocks.find(PAGE, PAGE as usize)?, (0x9010, 4096));
        assert!(blocks.find(2 * PAGE, 1).is_err());
        // A length beyond the pages is cut off.
        blocks.end(0x10, 9 * PAGE);
        assert_eq!(blocks.len(), 3 * PAGE - 0x10);
        blocks.begin(12);
        assert!(blocks.find(0, 1).is_err());
        Ok(())
    }

    #[test]
    fn nothing() -> Result {
        let blocks = Blocks::new(core::iter::empty)?;
        assert_eq!(blocks.len(), 0);
        assert!(blocks.find(0, 1).is_err());
        assert!(blocks.find(0, 0).is_ok());
        Ok(())
    }
}
