// SPDX-License-Identifier: GPL-2.0

//! Messages that cannot flood the log.
//!
//! Peers and processes can cause most messages as often as they like. So each place in the source
//! has a limit of its own.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rdma_bindings as bindings;

/// The most messages that one place in the source logs in a period.
const BURST: u32 = 10;
/// The length of a period, in nanoseconds.
const PERIOD: u64 = 5_000_000_000;

/// Counts the messages of one place in the source.
#[doc(hidden)]
pub struct RateLimit {
    /// When the period began, in nanoseconds.
    begin: AtomicU64,
    /// Messages since then, logged or suppressed.
    count: AtomicU32,
}

impl RateLimit {
    /// Makes a limit that has counted no message.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            begin: AtomicU64::new(0),
            count: AtomicU32::new(0),
        }
    }

    /// Whether a message may be logged now; if so, how many before it were suppressed. The limit is
    /// not exact while several CPUs count. Context: any.
    pub fn check(&self) -> Option<u32> {
        // SAFETY: The function has no requirements.
        let now = unsafe { bindings::ktime_get() } as u64;
        let begin = self.begin.load(Ordering::Relaxed);
        if now.wrapping_sub(begin) >= PERIOD || begin == 0 {
            let order = Ordering::Relaxed;
            if self
                .begin
                .compare_exchange(begin, now, order, order)
                .is_ok()
            {
                let count = self.count.swap(1, order);
                return Some(count.saturating_sub(BURST));
            }
        }
        // No overflow: 2^32 messages take longer than a period.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        (count < BURST).then_some(0)
    }
}

/// Logs a message by one of the kernel's `pr_*!` macros, unless this place has reached its limit:
/// `kext::ratelimited!(pr_warn, "{}: what\n", device.name())`.
#[macro_export]
macro_rules! ratelimited {
    ($say:ident, $($arg:tt)*) => {{
        static LIMIT: $crate::log::RateLimit = $crate::log::RateLimit::new();
        if let Some(missed) = LIMIT.check() {
            if missed > 0 {
                ::kernel::$say!("{} messages like the next one were left out\n", missed);
            }
            ::kernel::$say!($($arg)*);
        }
    }};
}

/// Logs an error of the device `name` (anything to display), at most ten in five seconds from this
/// place: `kext::ratelimited_err!(device.name(), "what {}\n", value)`.
#[macro_export]
macro_rules! ratelimited_err {
    ($name:expr, $($arg:tt)*) => {
        $crate::ratelimited!(pr_err, "{}: {}", $name, ::core::format_args!($($arg)*))
    };
}

/// Logs a warning of a device; see [`ratelimited_err!`](crate::ratelimited_err).
#[macro_export]
macro_rules! ratelimited_warn {
    ($name:expr, $($arg:tt)*) => {
        $crate::ratelimited!(pr_warn, "{}: {}", $name, ::core::format_args!($($arg)*))
    };
}

/// Logs information about a device; see [`ratelimited_err!`](crate::ratelimited_err).
#[macro_export]
macro_rules! ratelimited_info {
    ($name:expr, $($arg:tt)*) => {
        $crate::ratelimited!(pr_info, "{}: {}", $name, ::core::format_args!($($arg)*))
    };
}
