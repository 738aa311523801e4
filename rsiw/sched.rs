// SPDX-License-Identifier: GPL-2.0

//! Scheduling of tx.
//!
//! One actor at a time runs a QP's tx, as the holder of a [`TxLock`](kext::tx_lock). It is the
//! process that rings the doorbell; or the receive callback, which answers short Reads at once; or
//! the module's worker, which does the work of callers that must not sleep. An actor that finds the
//! lock taken signals the holder, which then runs tx once more, so no wake-up is lost.

use crate::{params, qp::Qp, tx::Ended};
use kernel::{sync::Arc, workqueue::WorkItem};
use net::LockedSock;

/// A process' budget, as a multiple of the worker's. A process holds up only itself with its work.
/// So the budget lets most processes do all of it themselves, but each call returns in the end.
const PROCESS: usize = 4;

/// How often tx runs once more for actors that found it locked.
const ROUNDS: u32 = 16;

impl Qp {
    /// Has the worker run tx. Context: any.
    pub(crate) fn wake_tx(self: &Arc<Self>) {
        // It fails only if the work is queued already, which serves as well. (The work may run from
        // one queue and be queued on the other. If it runs there, too, it finds tx locked.)
        let _ = self.dev.queues.tx_now().queue().enqueue(self.clone());
    }

    /// Runs tx for a process. If another actor runs tx, that one does the work. Context: sleeping,
    /// no lock held.
    pub(crate) fn run_tx(self: &Arc<Self>) {
        self.run_for(PROCESS * params::tx_budget());
    }

    /// Runs tx here for about `left` bytes. The worker does the rest.
    fn run_for(self: &Arc<Self>, mut left: usize) {
        let Some(mut guard) = self.tx.try_lock_or_signal() else {
            return;
        };
        // Bounded, as other threads may ring the doorbell again and again. Then the worker goes on.
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

    /// Answers the peer's short Reads here. If another actor runs tx, that one does; longer answers
    /// are left to the worker. Context: callback, socket locked.
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
