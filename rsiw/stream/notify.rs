// SPDX-License-Identifier: GPL-2.0

//! The consumer's calls for completions: made at once, or later by the worker.

use super::Stream;
use crate::cq::{Cq, Notify};
use core::{mem::take, sync::atomic::Ordering};
use kernel::sync::Arc;

impl Stream {
    /// Calls the consumer's handler for completions in the send CQ, as `n` says. Context: any,
    /// without locks that the handler may need (Documentation/locking).
    pub(crate) fn after_send(self: &Arc<Self>, n: Notify) {
        self.after(&self.queues.scq, n);
    }

    /// Calls the consumer's handler for completions in the receive CQ, as `n` says. Context: any,
    /// without locks that the handler may need (Documentation/locking).
    pub(crate) fn after_recv(self: &Arc<Self>, n: Notify) {
        self.after(&self.queues.rcq, n);
    }

    /// Has the worker call the consumers, for a caller that must not: a verb must not call back
    /// from within (Documentation/infiniband/core_locking.rst). Context: any.
    pub(crate) fn defer_notify(self: &Arc<Self>, send: Notify, recv: Notify) {
        if send == Notify::default() && recv == Notify::default() {
            return;
        }
        {
            let deferred_notify = &mut self.shared.lock().deferred_notify;
            deferred_notify.0 |= send;
            deferred_notify.1 |= recv;
        }
        self.has_deferred.store(true, Ordering::Release);
        self.wake_tx();
    }

    /// Makes the deferred calls. Context: worker.
    pub(super) fn flush_notify(self: &Arc<Self>) {
        // `defer_notify` sets the flag after it has released the lock and before it wakes tx. So a
        // call that is missed here is made when the worker runs for that wake-up.
        if !self.has_deferred.load(Ordering::Acquire) {
            return;
        }
        if let Some(_inside) = self.notify_gate.try_access() {
            self.make_calls();
        }
    }

    /// Makes the deferred calls, and prevents others from now on: a consumer may free what its
    /// handlers use once its QP is destroyed. All calls are made, as a CQ that was armed for one of
    /// them may serve other QPs, too. Calls that were put off, or sent to the processor of a
    /// completion vector, have been made on return. Context: sleeping; the consumer posts nothing
    /// any more.
    pub(super) fn end_notify(self: &Arc<Self>) {
        // Waits until the worker, if it is making such calls, has made them.
        self.notify_gate.revoke();
        self.make_calls();
        for cq in [&self.queues.scq, &self.queues.rcq] {
            cq.end_delay();
            cq.wait_notified();
        }
    }

    fn make_calls(self: &Arc<Self>) {
        if !self.has_deferred.swap(false, Ordering::AcqRel) {
            return;
        }
        let (send, recv) = take(&mut self.shared.lock().deferred_notify);
        self.after_send(send);
        self.after_recv(recv);
    }

    #[inline]
    fn after(self: &Arc<Self>, cq: &Arc<Cq>, n: Notify) {
        if n == Notify::default() {
            return;
        }
        cq.notify(n);
        if n.is_lost() {
            self.cq_overflow();
        }
    }
}
