// SPDX-License-Identifier: GPL-2.0

//! The rate of a received stream: a worker receives a fast one.
//!
//! TCP acknowledges when its reader has taken two segments. A callback takes each packet as it
//! comes, so without receive offload TCP acknowledges every second packet, and each acknowledgment
//! is a packet to send and one to receive. A worker runs after the softirq has taken all packets
//! that the device had, and TCP acknowledges once for all that the worker takes. But a worker costs
//! a change of context. So the detector does not count packets that receive offload has joined:
//! there are few acknowledgments to save, and somebody may wait for each message.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// Window in which bytes are counted: 2^3 milliseconds.
const WINDOW_BITS: u32 = 3;

/// Bytes in one window that make a stream fast: 16 MiB/s.
const FAST: u32 = 128 << 10;

/// Bytes in one window by which a message is not alone in it.
const BUSY: u32 = 256;

/// If so many bytes come at once, receive offload has joined packets.
const JOINED: usize = 8 << 10;

/// The bytes of one stream in this window and the one before. Used only with the socket locked.
pub(super) struct BulkDetector {
    window: AtomicU32,
    taken: AtomicU32,
    /// The window before this one was fast.
    was_fast: AtomicBool,
}

impl BulkDetector {
    /// A detector for a stream that has not begun.
    pub(super) fn new() -> Self {
        Self {
            window: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            was_fast: AtomicBool::new(false),
        }
    }

    /// Counts bytes that were received at once, at time `now` in milliseconds. Context: socket
    /// locked.
    pub(super) fn took(&self, bytes: usize, now: u32) {
        let window = self.at(now);
        if bytes >= JOINED && !window.is_fast() {
            return;
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.taken
            .store(window.bytes.saturating_add(bytes), Relaxed);
    }

    /// The window of the time `now` in milliseconds, so far. Context: socket locked.
    pub(super) fn at(&self, now: u32) -> Window {
        Window {
            bytes: self.turn(now),
            was_fast: self.was_fast.load(Relaxed),
        }
    }

    /// Begins a window if the last one is over at `now`. Returns the bytes in the current one.
    fn turn(&self, now: u32) -> u32 {
        let now = now >> WINDOW_BITS;
        let passed = now.wrapping_sub(self.window.load(Relaxed));
        let taken = self.taken.load(Relaxed);
        if passed == 0 {
            return taken;
        }
        // A tick may be longer than a window (HZ=100), so one empty window is allowed. When the
        // clock wraps, a fast stream counts as slow once.
        self.was_fast.store(passed <= 2 && taken >= FAST, Relaxed);
        self.window.store(now, Relaxed);
        self.taken.store(0, Relaxed);
        0
    }
}

/// What has come in a window so far.
pub(super) struct Window {
    bytes: u32,
    /// The one before was fast.
    was_fast: bool,
}

impl Window {
    /// Whether the window is fast already, or the one before was.
    pub(super) fn is_fast(&self) -> bool {
        self.bytes >= FAST || self.was_fast
    }

    /// Whether some short messages, or a long one that no receive offload has joined, have come.
    pub(super) fn is_busy(&self) -> bool {
        self.bytes >= BUSY
    }
}
