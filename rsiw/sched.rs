// SPDX-License-Identifier: GPL-2.0

//! Who runs tx.
//!
//! Exactly one actor at a time runs a QP's tx: the process that rings the doorbell, or the module's
//! worker for everybody who may not sleep (callbacks, kernel consumers' posts). A wake-up is a flag
//! and then an attempt; whoever finds tx taken leaves the flag behind, and the actor looks at it
//! again after it has let go, so that no wake-up is lost.

use crate::{qp::Qp, tx::Ended};
use core::sync::atomic::Ordering;
use kernel::{sync::Arc, workqueue::WorkItem};
use rdma::ring::mb;

/// How often tx looks again on behalf of those who found it taken.
const ROUNDS: u32 = 16;

impl Qp {
    /// Has the worker run tx. Context: any.
    pub(crate) fn wake_tx(self: &Arc<Self>) {
        self.tx_wanted.store(true, Ordering::Release);
        // Fails only when the work is queued already, which is as good.
        let _ = self.dev.queues.tx.queue().enqueue(self.clone());
    }

    /// Runs tx here, unless another actor does, which then sees to it. Context: sleeping, no lock
    /// held.
    pub(crate) fn run_tx(self: &Arc<Self>) {
        self.tx_wanted.store(true, Ordering::Release);
        // A bound, as other threads may keep on ringing: then the worker goes on.
        for _ in 0..ROUNDS {
            // Orders the flag before the attempt; pairs with the barrier below.
            mb();
            let Some(mut tx) = self.tx.try_lock() else {
                return;
            };
            self.tx_wanted.store(false, Ordering::Release);
            // Orders the flag before the look at the queues.
            mb();
            let ended = match &mut *tx {
                Some(tx) => tx.run(self),
                None => Ended::Waits,
            };
            drop(tx);
            if ended == Ended::Again {
                break;
            }
            // Orders the release of tx before the look at the flag: a wake-up that found tx taken
            // has set it before.
            mb();
            if !self.tx_wanted.load(Ordering::Acquire) {
                return;
            }
        }
        self.wake_tx();
    }
}

impl WorkItem for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.settle();
        this.run_tx();
    }
}
