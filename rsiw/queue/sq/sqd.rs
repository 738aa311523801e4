// SPDX-License-Identifier: GPL-2.0

//! A send queue that its program holds: InfiniBand's state SQD.
//!
//! The queue ends, for the time being, behind the last request that tx has taken, as it does for
//! an orderly close. So tx, which asks for each request whether the queue ends there, has nothing
//! more to ask. Requests that are posted meanwhile stay in the ring.

use super::{SendQueue, NO_END};
use core::{mem::take, sync::atomic::Ordering};

impl SendQueue {
    /// Holds a process' queue: requests that tx has not taken yet wait. If `tell`,
    /// [`Self::take_drained`] tells when the others have completed. Context: sleeping; the caller
    /// has locked tx out.
    pub(crate) fn hold(&self, tell: bool) {
        let st = &mut *self.state.lock();
        if !self.has_end() {
            self.end.store(self.tail().into(), Ordering::Relaxed);
        }
        st.tell_drained = tell;
    }

    /// Ends what [`Self::hold`] has begun. Context: sleeping; the caller has locked tx out, and has
    /// tx woken afterwards. No orderly close has begun.
    pub(crate) fn release(&self) {
        let st = &mut *self.state.lock();
        self.end.store(NO_END, Ordering::Relaxed);
        st.tell_drained = false;
    }

    /// Whether the program is to be told, now, that what it holds has drained. If requests are left
    /// that wait for their answers, the answers wake tx. Context: any.
    #[cold]
    pub(crate) fn take_drained(&self) -> bool {
        let st = &mut *self.state.lock();
        if !st.tell_drained {
            return false;
        }
        if !self.ends_at(self.oldest()) {
            st.tx_waits = true;
            return false;
        }
        take(&mut st.tell_drained)
    }
}
