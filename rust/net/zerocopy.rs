// SPDX-License-Identifier: GPL-2.0

//! Memory of others that TCP sends from, and when TCP has released it.
//!
//! A batch may [refer](crate::TxBatch::refer) to such memory. TCP has references to its pages, so
//! they stay, but whoever has them may write to them only when TCP has released them: when the peer
//! has acknowledged the bytes, the devices have let go of them, and packets to this host have got a
//! copy. `rust/ksock/zerocopy.c` has the kernel's means.
//!
//! Each send that refers to memory has a number, from 0 on. TCP releases them in any order.

use crate::{bindings, PageSpan, TcpSocket};
use kernel::{error::Result, prelude::*};

impl TcpSocket {
    /// Whether TCP should refer to memory of others: the route's device takes packets out of this
    /// host, and can send from pages. It is no error if that changes. Context: any.
    pub fn may_refer(&self) -> bool {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        !self.is_secure() && unsafe { bindings::ksock_may_refer(self.sk()) }
    }

    /// Sends `len` bytes, those of all `spans`. Returns what TCP returned. Context: sleeping.
    pub(crate) fn send_referring(
        &self,
        spans: &[PageSpan],
        len: usize,
        end: bool,
    ) -> Result<c_int> {
        let count = u32::try_from(spans.len()).map_err(|_| EINVAL)?;
        let spans = spans.as_ptr().cast();
        // SAFETY: `self` owns the socket. A `PageSpan` has the layout of a `bio_vec`. It describes
        // bytes of a page, and has a reference to that page; TCP takes its own. Together the spans
        // have `len` bytes, as those of a batch do.
        Ok(unsafe { bindings::ksock_send_referring(self.sk(), spans, count, len, end) })
    }

    /// The number of the next send that refers to memory; wraps. The caller is the only sender.
    pub fn referred(&self) -> u32 {
        // SAFETY: By the type invariant `sk` is that of a TCP socket.
        unsafe { bindings::ksock_referred(self.sk()) }
    }

    /// The first and the last number of sends that TCP has released, each send once. Context: any
    /// but a callback. [`SockCallbacks::released`] says when there is more.
    ///
    /// [`SockCallbacks::released`]: crate::SockCallbacks::released
    pub fn next_released(&self) -> Option<(u32, u32)> {
        let (mut first, mut last) = (0, 0);
        // SAFETY: By the type invariant `sk` is that of a TCP socket. The two are valid for writes.
        let found = unsafe { bindings::ksock_released(self.sk(), &mut first, &mut last) };
        found.then_some((first, last))
    }
}

/// Which sends TCP has released.
#[derive(Default)]
pub struct Released {
    /// All before it are.
    next: u32,
    /// Bit `i`: `next + i` is. Bit 0 is 0.
    later: u128,
}

impl Released {
    /// The most sends that may be with TCP.
    pub const MOST: u32 = u128::BITS;

    /// All sends before this number are released.
    #[inline]
    pub fn all_before(&self) -> u32 {
        self.next
    }

    /// Notes that the sends from `first` to `last` are. Errors: `EINVAL` if they were noted, or are
    /// more than [`Self::MOST`] behind the first that is not.
    pub fn note(&mut self, first: u32, last: u32) -> Result {
        let from = first.wrapping_sub(self.next);
        let to = last.wrapping_sub(self.next);
        if from > to || to >= Self::MOST {
            return Err(EINVAL);
        }
        let (from, to) = (u128::MAX << from, u128::MAX >> (Self::MOST - 1 - to));
        if self.later & from & to != 0 {
            return Err(EINVAL);
        }
        self.later |= from & to;
        let done = self.later.trailing_ones();
        self.next = self.next.wrapping_add(done);
        self.later = self.later.checked_shr(done).unwrap_or(0);
        Ok(())
    }
}

#[kunit_tests(rsiw_net_zerocopy)]
mod tests {
    use super::*;

    #[test]
    fn sends_are_released_in_any_order() -> Result {
        for begin in [0, u32::MAX - 2] {
            let mut released = Released {
                next: begin,
                later: 0,
            };
            let at = |n: u32| begin.wrapping_add(n);
            for (first, last, before) in [
                (0, 0, 1),
                (2, 3, 1),
                (5, 5, 1),
                (1, 1, 4),
                (4, 4, 6),
                (6, 6 + Released::MOST - 1, 6 + Released::MOST),
            ] {
                released.note(at(first), at(last))?;
                assert_eq!(released.all_before(), at(before));
            }
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_is_refused() -> Result {
        let mut released = Released::default();
        released.note(0, 1)?;
        released.note(4, 5)?;
        for (first, last) in [
            (0, 0),
            (1, 2),
            (3, 2),
            (3, 4),
            (5, 5),
            (2, 2 + Released::MOST),
        ] {
            assert!(released.note(first, last).is_err());
            assert_eq!(released.all_before(), 2);
        }
        released.note(2, 3)?;
        assert_eq!(released.all_before(), 6);
        Ok(())
    }
}
