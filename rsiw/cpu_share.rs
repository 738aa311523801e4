// SPDX-License-Identifier: GPL-2.0

//! Keeps workers of high priority from monopolising a processor.
//!
//! Workers of tx and of bulk receive have a high priority. Otherwise a process that polls for
//! completions would take half of a processor from the work that makes them. But then a peer that
//! reads or writes, or another process with much to send, would have a processor to itself. So when
//! workers have had a processor for [`WORK_NS`], and another task wants it, they sleep for
//! [`REST_NS`].
//!
//! While one item rests, those behind it on that processor wait, and keep their order. They do not
//! run at a low priority instead: they would have to wait there for the work of other queue pairs
//! whose priority is high, with the socket's lock held or with data that is not acknowledged, until
//! TCP takes what the peer has sent for lost.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{
    cpu::{nr_cpu_ids, CpuId},
    new_mutex,
    prelude::*,
    sync::Mutex,
    time::{delay::fsleep, Delta},
};

/// Nanoseconds that workers have a processor before they rest.
const WORK_NS: u64 = 60_000_000;

/// Nanoseconds of a rest, at most.
const REST_NS: u64 = 4_000_000;

/// Microseconds after which a worker that rests looks whether it is the only one that wants the
/// processor. Then the rest ends.
const LOOK_US: i64 = 1000;

/// What the workers of one processor have had of it, in cache lines of its own. Only they write it.
/// Time in which a worker waits for a lock or for memory counts as well, but none counts twice.
#[repr(align(64))]
struct Cpu {
    /// Locked by the worker that sleeps, and in turn by those that came after it.
    resting: Pin<KBox<Mutex<()>>>,
    /// Nanoseconds of work since `since`.
    busy: AtomicU64,
    /// When the count began, by the monotonic clock.
    since: AtomicU64,
    /// Time up to here is counted.
    counted: AtomicU64,
    /// When the rest ends, or has ended.
    rest_end: AtomicU64,
}

/// The accounts of all processors.
pub(crate) struct CpuShare {
    cpus: KVec<Cpu>,
}

/// A run of a worker. Its time is counted when this is dropped.
#[must_use]
pub(crate) struct Run<'a> {
    cpu: &'a Cpu,
    began: u64,
}

impl Cpu {
    fn new() -> Result<Self> {
        Ok(Self {
            resting: KBox::pin_init(new_mutex!((), "rsiw_resting"), GFP_KERNEL)?,
            busy: AtomicU64::new(0),
            since: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            rest_end: AtomicU64::new(0),
        })
    }

    /// Whether a rest is due at `now`: workers have had so much, and that was more than half of the
    /// time since the count began. Then, or if it was less, the count begins anew.
    fn is_due(&self, now: u64) -> bool {
        if self.busy.load(Relaxed) < WORK_NS {
            return false;
        }
        self.busy.store(0, Relaxed);
        now.saturating_sub(self.since.swap(now, Relaxed)) < 2 * WORK_NS
    }

    fn is_resting(&self, now: u64) -> bool {
        now < self.rest_end.load(Relaxed)
    }

    /// Sleeps until the rest has ended. Returns the time.
    fn sleep(&self) -> u64 {
        let now = kext::monotonic_ns();
        if !self.is_resting(now) {
            return now;
        }
        // One worker looks at the clock for all of them. If all did, each would find the others
        // awake, and take them for tasks that want the processor.
        let _turn = self.resting.lock();
        loop {
            let now = kext::monotonic_ns();
            if !self.is_resting(now) {
                return now;
            }
            fsleep(Delta::from_micros(LOOK_US));
            if kext::is_only_task() {
                self.rest_end.store(0, Relaxed);
            }
        }
    }

    /// Counts the time of a run, as far as it is not counted for another.
    fn add(&self, began: u64, now: u64) {
        let from = began.max(self.counted.swap(now, Relaxed));
        self.busy.fetch_add(now.saturating_sub(from), Relaxed);
    }
}

impl CpuShare {
    /// Makes the accounts. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let count = nr_cpu_ids() as usize;
        let mut cpus = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            cpus.push(Cpu::new()?, GFP_KERNEL)?;
        }
        Ok(Self { cpus })
    }

    /// Begins a run of a worker, after a rest if one is due or under way. Context: a worker that is
    /// bound to its processor, without locks.
    pub(crate) fn begin(&self) -> Option<Run<'_>> {
        let cpu = self.cpus.get(CpuId::current().as_u32() as usize)?;
        let mut began = cpu.sleep();
        // A task that comes later waits for the next count.
        if cpu.is_due(began) && !kext::is_only_task() {
            cpu.rest_end.store(began.saturating_add(REST_NS), Relaxed);
            began = cpu.sleep();
        }
        Some(Run { cpu, began })
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.cpu.add(self.began, kext::monotonic_ns());
    }
}

#[kunit_tests(rsiw_cpu_share)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_rest_is_due_after_much_work() -> Result {
        let cpu = Cpu::new()?;
        // The first count began long ago.
        cpu.add(940 * MS, 1000 * MS);
        assert!(!cpu.is_due(1000 * MS));
        cpu.add(1000 * MS, 1060 * MS - 1);
        assert!(!cpu.is_due(1060 * MS));
        cpu.add(1060 * MS - 1, 1060 * MS);
        assert!(cpu.is_due(1060 * MS));
        // The count has begun anew.
        assert!(!cpu.is_due(1060 * MS));
        cpu.add(1060 * MS, 1120 * MS);
        assert!(cpu.is_due(1060 * MS + 2 * WORK_NS - 1));
        Ok(())
    }

    #[test]
    fn work_that_leaves_half_of_the_time_needs_no_rest() -> Result {
        let cpu = Cpu::new()?;
        let mut now = 1000 * MS;
        for _ in 0..1000 {
            cpu.add(now, now + MS);
            now += 2 * MS;
            assert!(!cpu.is_due(now));
        }
        Ok(())
    }

    /// Several workers wait at a time.
    #[test]
    fn no_time_counts_twice() -> Result {
        let cpu = Cpu::new()?;
        cpu.add(1000 * MS, 1010 * MS);
        cpu.add(1000 * MS, 1020 * MS);
        cpu.add(1005 * MS, 1021 * MS);
        assert_eq!(cpu.busy.load(Relaxed), 21 * MS);
        Ok(())
    }

    #[test]
    fn rests_end() -> Result {
        let cpu = Cpu::new()?;
        let begin = kext::monotonic_ns();
        assert!(!cpu.is_resting(begin));
        cpu.rest_end.store(begin + 3 * REST_NS, Relaxed);
        assert!(cpu.is_resting(begin) && !cpu.is_resting(begin + 3 * REST_NS));
        let end = cpu.sleep();
        // It may have been the only task.
        assert!(end >= begin + 3 * REST_NS || cpu.rest_end.load(Relaxed) == 0);
        Ok(())
    }

    #[test]
    fn runs_are_counted() -> Result {
        let share = CpuShare::new()?;
        for _ in 0..3 {
            let run = share.begin();
            assert!(run.is_some());
            fsleep(Delta::from_millis(2));
        }
        // The thread may have been moved meanwhile.
        let sum: u64 = share.cpus.iter().map(|cpu| cpu.busy.load(Relaxed)).sum();
        assert!(sum >= 6 * MS);
        Ok(())
    }
}
