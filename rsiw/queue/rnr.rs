// SPDX-License-Identifier: GPL-2.0

//! What a program has said of Sends that find no receive: how often its own are tried again
//! (`rnr_retry`), and how long each time the peer's wait (`min_rnr_timer`). [`iwarp::conn::rnr`]
//! has what both ends make of it.
//!
//! A Send that has an end has to complete when the peer has taken it, and not when TCP has: so tx
//! has Sends confirmed, as Writes ([`super::sq`], `placed`), while `rnr_retry` is below 7. Most
//! programs say 7, and pay nothing.
//!
//! The peer refuses a Send in its turn, and says which it was. So all before have completed, or
//! complete now; the Send fails, and what is behind it is flushed.

use core::sync::atomic::{AtomicU8, Ordering};
use iwarp::conn::rnr::RnrRetry;
use kernel::prelude::*;

/// Milliseconds by which the clock, which counts ticks, may tell a time too long.
const TICK_MS: u32 = 10;

/// See the module's documentation.
pub(crate) struct Rnr {
    retry: AtomicU8,
    min_timer: AtomicU8,
}

impl Rnr {
    /// Nothing was said: Sends wait for ever.
    pub(super) const fn unsaid() -> Self {
        Self {
            retry: AtomicU8::new(RnrRetry::FOR_EVER.number()),
            min_timer: AtomicU8::new(0),
        }
    }

    /// Takes over what is said. Context: any.
    pub(crate) fn set(&self, retry: Option<u8>, min_timer: Option<u8>) {
        if let Some(retry) = retry {
            self.retry.store(retry, Ordering::Relaxed);
        }
        if let Some(min_timer) = min_timer {
            self.min_timer.store(min_timer, Ordering::Relaxed);
        }
    }

    /// Forgets what was said. Context: any.
    pub(super) fn reset(&self) {
        self.set(Some(RnrRetry::FOR_EVER.number()), Some(0));
    }

    /// How often this end's Sends are tried again.
    #[inline]
    pub(crate) fn retry(&self) -> RnrRetry {
        RnrRetry::new(self.retry.load(Ordering::Relaxed))
    }

    /// Milliseconds that a Send of a peer with that `retry` waits for a receive: no less than
    /// InfiniBand has it. `None`: for ever. Context: any.
    pub(crate) fn wait_ms(&self, retry: RnrRetry) -> Option<u32> {
        match retry.wait_us(self.min_timer.load(Ordering::Relaxed))? {
            0 => Some(0),
            us => Some(us.div_ceil(1000) + TICK_MS),
        }
    }
}

#[kunit_tests(rsiw_queue_rnr)]
mod tests {
    use super::*;

    #[test]
    fn a_send_waits_no_less_than_its_time() {
        let rnr = Rnr::unsaid();
        assert_eq!(rnr.retry(), RnrRetry::FOR_EVER);
        assert_eq!(rnr.wait_ms(rnr.retry()), None);
        rnr.set(Some(2), Some(12));
        assert_eq!(rnr.retry(), RnrRetry::new(2));
        assert_eq!(rnr.wait_ms(RnrRetry::new(2)), Some(2 + TICK_MS));
        assert_eq!(rnr.wait_ms(RnrRetry::new(0)), Some(0));
        rnr.set(None, Some(0));
        assert_eq!(rnr.wait_ms(RnrRetry::new(6)), Some(3933 + TICK_MS));
        rnr.reset();
        assert_eq!(rnr.retry(), RnrRetry::FOR_EVER);
    }
}
