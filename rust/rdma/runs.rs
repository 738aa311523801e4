// SPDX-License-Identifier: GPL-2.0

//! From an offset to an address, in memory that consists of runs of any lengths.
//!
//! [`Blocks`](crate::blocks::Blocks) find an address by a shift and a load, but need runs that page
//! borders divide. Here a binary search finds the run.

use crate::blocks::Run;
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
}

impl Runs {
    /// Makes room for `max` runs. Errors: `ENOMEM`. Context: sleeping.
    pub(crate) fn with_capacity(max: usize) -> Result<Self> {
        Ok(Self {
            table: KVVec::with_capacity(max, GFP_KERNEL)?,
            len: 0,
        })
    }

    /// Removes all runs. Context: any.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
        self.len = 0;
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
        let next = self.table.partition_point(|entry| entry.start <= offset);
        let entry = next.checked_sub(1).and_then(|at| self.table.get(at));
        let entry = entry.ok_or(EFAULT)?;
        let end = self.table.get(next).map_or(self.len, |next| next.start);
        let within = offset - entry.start;
        Ok((
            entry.addr.wrapping_add(within as usize),
            len.min(end - offset) as usize,
        ))
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
