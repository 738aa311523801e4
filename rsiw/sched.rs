// SPDX-License-Identifier: GPL-2.0

//! Who runs tx.
//!
//! One actor at a time runs a QP's tx, as the holder of a [`TxLock`](kext::tx_lock): the process that
//! rings the doorbell; the receive callback, which answers short Reads at once; or the module's
//! worker, for whatever is found where sleeping is not allowed. An actor that finds the lock taken
//! signals its holder, which looks again, so no wake-up is lost.

use crate::{params, qp::Qp, tx::Ended};
use kernel::{sync::Arc, workqueue::WorkItem};
use net::LockedSock;

/// How many times the budget of the worker a process has, which nobody waits for but itself: so much
/// that most do all of their work themselves, and get back to it in the end.
const PROCESS: usize = 4;

/// How often tx looks again on behalf of those who found it taken.
const ROUNDS: u32 = 16;

impl Qp {
    /// Has the worker run tx. Context: any.
    pub(crate) fn wake_tx(self: &Arc<Self>) {
        // Fails only when the work is queued already, which is as good. (While it runs from one queue
        // it may be queued on the other, and run there, too, and find tx locked.)
        let _ = self.dev.queues.tx_now().queue().enqueue(self.clone());
    }

    /// Runs tx for a process, unless another actor does, which then sees to it. Context: sleeping, no
    /// lock held.
    pub(crate) fn run_tx(self: &Arc<Self>) {
        self.run_for(PROCESS * params::tx_budget());
    }

    /// Runs tx here for about `left` bytes, then has the worker go on.
    fn run_for(self: &Arc<Self>, mut left: usize) {
        let Some(mut guard) = self.tx.try_lock_or_signal() else {
            return;
        };
        // A bound, as other threads may keep on ringing: then the worker goes on.
        for _ in 0..ROUNDS {
            if let Some(tx) = &mut *guard {
                if tx.run(self, &mut left) == Ended::Again {
                    break;
                }
            }
            guard = match guard.unlock() {
                Ok(()) => return,
                Err(signalled) => signalled,
            };
        }
        // Wake-ups that arrive while tx is locked here are lost; the `wake_tx()` below makes up for
        // them.
        drop(guard);
        self.wake_tx();
    }

    /// Answers the peer's short Reads here, unless another actor runs tx, which then sees to it, or
    /// the worker has to. Context: callback, the socket is locked.
    pub(crate) fn answer_here(self: &Arc<Self>, sk: &mut LockedSock) {
        let Some(mut guard) = self.tx.try_lock_or_signal() else {
            return;
        };
        let ended = match &mut *guard {
            Some(tx) => tx.answer(self, sk),
            None => Ended::Waits,
        };
        if guard.unlock().is_err() || ended == Ended::Again {
            self.wake_tx();
        }
    }
}

impl WorkItem for Qp {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.flush_notify();
        this.run_for(params::tx_budget());
    }
}
