// SPDX-License-Identifier: GPL-2.0

//! How fast a stream comes in: what is fast is received by a worker.
//!
//! TCP acknowledges when its reader has taken two segments. A callback takes each packet as it comes, so
//! that without receive offload every second one is acknowledged, and every acknowledgement is a
//! packet to send and one to receive. A worker comes when the softirq has taken what the device had, and
//! what it takes at a time is acknowledged once. It costs a change of context. So what receive
//! offload has joined makes no stream fast: there is nothing to save, and somebody may wait for each of its
//! messages.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Milliseconds that octets are counted for, as a power of two.
const WINDOW_BITS: u32 = 3;

/// So many octets in one window are fast: 16 MiB/s.
const FAST: u32 = 128 << 10;

/// So much at a time was joined by receive offload.
const JOINED: usize = 8 << 10;

/// What one stream did in this window and in the one before. All of it is used with the socket locked.
pub(super) struct BulkDetector {
    window: AtomicU32,
    taken: AtomicU32,
    /// The window before this one was fast.
    was_fast: AtomicBool,
}

impl BulkDetector {
    /// Of a stream that has not begun.
    pub(super) fn new() -> Self {
        Self {
            window: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            was_fast: AtomicBool::new(false),
        }
    }

    /// Counts octets that came at a time. Context: the socket's lock is held.
    pub(super) fn took(&self, octets: usize) {
        if octets >= JOINED && !self.is_fast() {
            return;
        }
        let before = self.turn();
        let octets = u32::try_from(octets).unwrap_or(u32::MAX);
        self.taken.store(before.saturating_add(octets), Relaxed);
    }

    /// Whether this window is fast already, or the one before was. Context: as [`Self::took`].
    pub(super) fn is_fast(&self) -> bool {
        self.turn() >= FAST || self.was_fast.load(Relaxed)
    }

    /// Begins a window if it is time; returns what was taken in the one there is now.
    fn turn(&self) -> u32 {
        let now = kext::jiffies_ms() >> WINDOW_BITS;
        let passed = now.wrapping_sub(self.window.load(Relaxed));
        let taken = self.taken.load(Relaxed);
        if passed == 0 {
            return taken;
        }
        // A tick may be longer than a window (HZ=100). Where the time wraps, a fast stream is slow once.
        self.was_fast.store(passed <= 2 && taken >= FAST, Relaxed);
        self.window.store(now, Relaxed);
        self.taken.store(0, Relaxed);
        0
    }
}
