// SPDX-License-Identifier: GPL-2.0

//! The send queue drains, and is held, as InfiniBand's state SQD has it: requests that have begun
//! go on, others wait. The peer's requests are served meanwhile.
//!
//! A request has begun when tx has taken it, and is done when it completes. Tx looks, when it comes
//! to rest, whether the last one is; a Read, which completes in rx, wakes it.

use super::Stream;
use kernel::sync::Arc;
use rdma::QpEvent;

impl Stream {
    /// Has requests wait that have not begun. If `tell`, the consumer gets an event when all others
    /// are done. Without effect if the QP was reset since `life`. Context: sleeping.
    pub(crate) fn hold(self: &Arc<Self>, life: u32, tell: bool) {
        // Held to the end, so that no reset comes between.
        let mut end = self.teardown.lock();
        if life != self.life() {
            return;
        }
        self.with_tx(|_| self.queues.sq.hold(tell));
        if self.queues.sq.is_idle() {
            // What waits now waits for the program, not for a peer.
            end.stop_waiting();
        }
        drop(end);
        if tell {
            // Tx tells of the end, if it has come.
            self.wake_tx();
        }
    }

    /// Ends what [`Self::hold`] has begun. Without effect if the QP was reset since `life`.
    /// Context: sleeping.
    pub(crate) fn release(self: &Arc<Self>, life: u32) {
        let end = self.teardown.lock();
        if life != self.life() {
            return;
        }
        self.with_tx(|_| {
            // An orderly close, as when the device goes, ends the queue for good. It goes to
            // CLOSING first, and then locks tx.
            if !self.queues.is_closing() {
                self.queues.sq.release();
            }
        });
        drop(end);
        self.wake_tx();
    }

    /// Tells the consumer that its queue has drained, if that is due. Context: any, tx locked or
    /// without a connection.
    #[cold]
    pub(super) fn tell_drained(&self) {
        if self.queues.sq.take_drained() {
            self.handle.event(QpEvent::SqDrained);
        }
    }
}
