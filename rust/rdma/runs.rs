// SPDX-License-Identifier: GPL-2.0

//! From an offset to an address, in memory that consists of runs of any lengths.
//!
//! [`Blocks`](crate::blocks::Blocks) find an address by a shift and a load, but need runs that page
//! borders divide. Here a binary search finds the run, unless it is the one that was found last, or
//! the next: most accesses go on where the one before has ended.

use crate::blocks::Run;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::prelude::*;

/// A run; the next one begins where it ends.
struct Entry {
    /// The offset of its first byte.
    start: u64,
    /// The kernel address of its first byte.
    addr: usize,
}

/// The lookup table; see the module's documentation.
pub(crate) struct Runs {
    /// In the order of their offsets. None is empty.
    table: KVVec<Entry>,
    /// The number of bytes.
    len: u64,
    /// The index of the run that was found last.
    last: AtomicU32,
}

impl Runs {
    /// Makes room for `max` runs. Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn with_capacity(max: usize) -> Result<Self> {
        Ok(Self {
            table: KVVec::with_capacity(max, GFP_KERNEL)?,
            len: 0,
            last: AtomicU32::new(0),
        })
    }

    /// Removes all runs. Context: any.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.len = 0;
        self.last.store(0, Relaxed);
    }

    /// Adds a run; one that follows the last in memory becomes a part of it. Errors: `ENOMEM` if
    /// there is no room, `EINVAL` if the length overflows. Context: any.
    pub(crate) fn push(&mut self, run: Run) -> Result {
        let len = self.len.checked_add(run.len).ok_or(EINVAL)?;
        let follows = self.table.last().is_some_and(|last| {
            let behind = last.addr.wrapping_add((self.len - last.start) as usize);
            behind == run.addr
        });
        if run.len != 0 && !follows {
            let entry = Entry {
                start: self.len,
                addr: run.addr,
            };
            let pushed = self.table.push_within_capacity(entry);
            pushed.map_err(|_| ENOMEM)?;
        }
        self.len = len;
        Ok(())
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The address of `offset`, and how many of the `len` bytes from there on are contiguous: all,
    /// or those up to the run's end. Errors: `EFAULT` if they are not all in the memory.
    #[inline]
    pub(crate) fn find(&self, offset: u64, len: usize) -> Result<(usize, usize)> {
        let len = len as u64;
        if offset > self.len || self.len - offset < len {
            return Err(EFAULT);
        }
        if len == 0 {
            return Ok((core::mem::align_of::<u64>(), 0));
        }
        let last = self.last.load(Relaxed) as usize;
        let at = if self.holds(last, offset) {
            last
        } else if self.holds(last + 1, offset) {
            last + 1
        } else {
            let next = self.table.partition_point(|entry| entry.start <= offset);
            next.checked_sub(1).ok_or(EFAULT)?
        };
        if at != last {
            self.last.store(at as u32, Relaxed);
        }
        let entry = self.table.get(at).ok_or(EFAULT)?;
        let within = offset - entry.start;
        let end = self.end_of(at);
        Ok((
            entry.addr.wrapping_add(within as usize),
            len.min(end - offset) as usize,
        ))
    }

    /// The offset behind the last byte of the run with that index.
    #[inline]
    fn end_of(&self, at: usize) -> u64 {
        self.table.get(at + 1).map_or(self.len, |next| next.start)
    }

    /// Whether the run with that index, if there is one, has the byte at `offset`.
    #[inline]
    fn holds(&self, at: usize, offset: u64) -> bool {
        let entry = self.table.get(at);
        entry.is_some_and(|entry| entry.start <= offset && offset < self.end_of(at))
    }
}

#[kunit_tests(rdma_runs)]
mod tests {
    use super::*;

    fn run(addr: usize, len: u64) -> Run {
        Run { addr, len }
    }

    fn runs(max: usize, list: &[Run]) -> Result<Runs> {
        let mut runs = Runs::with_capacity(max)?;
        for run in list {
            runs.push(*run)?;
        }
        Ok(runs)
    }

    /// Each offset leads to its byte, and each lookup ends where the run does.
    #[test]
    fn runs_of_any_length_are_found() -> Result {
        let list = [
            run(0x7003, 5),
            run(0x9001, 1),
            run(0x1000, 4096),
            run(0x5fff, 2),
        ];
        let runs = runs(list.len(), &list)?;
        let mut offset = 0;
        for run in list {
            for i in 0..run.len {
                let (addr, len) = (run.addr + i as usize, (run.len - i) as usize);
                assert_eq!(runs.find(offset, 1)?, (addr, 1));
                let rest = (runs.len() - offset) as usize;
                assert_eq!(runs.find(offset, rest)?, (addr, len));
                assert!(runs.find(offset, rest + 1).is_err());
                offset += 1;
            }
        }
        // From each byte to each other, whatever was found last.
        for back in (0..list.len()).flat_map(|_| [0, 4101, 5, 6, 4102, 0, 5]) {
            let of = [(0, 0), (5, 1), (6, 2), (4102, 3)];
            let (start, at) = of
                .into_iter()
                .rfind(|(start, _)| *start <= back)
                .ok_or(EINVAL)?;
            let addr = list[at].addr + (back - start) as usize;
            assert_eq!(runs.find(back, 1)?, (addr, 1));
        }
        assert_eq!(runs.len(), offset);
        assert!(runs.find(offset, 0).is_ok());
        assert!(runs.find(offset, 1).is_err());
        assert!(runs.find(offset + 1, 0).is_err());
        Ok(())
    }

    /// Neighbours take the room of one, and empty runs none.
    #[test]
    fn neighbours_are_one_run() -> Result {
        let mut runs = runs(1, &[run(0x7000, 16), run(0x7010, 16), run(0x9000, 0)])?;
        assert_eq!(runs.find(4, 28)?, (0x7004, 28));
        assert!(runs.push(run(0x7021, 1)).is_err());
        assert_eq!(runs.len(), 32);
        assert!(runs.push(run(0x7020, u64::MAX)).is_err());
        assert_eq!(runs.len(), 32);
        runs.clear();
        assert!(runs.find(0, 1).is_err());
        runs.push(run(0x9000, 1))?;
        assert_eq!(runs.find(0, 1)?, (0x9000, 1));
        Ok(())
    }
}
