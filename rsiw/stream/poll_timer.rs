// SPDX-License-Identifier: GPL-2.0

//! The timer that polls for events of which nobody tells: memory for TCP while the stream sends,
//! and what a process posts to a queue pair in ERROR.

use super::{Stream, Teardown};
use crate::cq::Notify;
use kernel::sync::Arc;
use kext::work::DelayedWorkItem;

impl DelayedWorkItem for Stream {
    fn expire(this: Arc<Self>) {
        let mut end = this.teardown.lock();
        if end.destroyed {
            return;
        }
        if !end.flushed {
            drop(end);
            return this.wake_tx();
        }
        this.await_late_posts(&mut end);
        let (sends, receives) = this.flush_late();
        drop(end);
        this.after_send(sends);
        this.after_recv(receives);
    }
}

impl Stream {
    /// Flushes what was posted in ERROR, to the send queue and to the QP's own receive queue. Asks
    /// for the consumer's calls. Context: sleeping, with `teardown` locked.
    pub(super) fn flush_late(&self) -> (Notify, Notify) {
        let queues = &self.queues;
        let sends = queues.sq.flush_ring(None, queues.send_out());
        let receives = if queues.rq_is_shared() {
            Notify::default()
        } else {
            queues.rq.flush(None, queues.recv_out())
        };
        (sends, receives)
    }

    /// A process has rung the doorbell of a queue pair in ERROR: flushes its requests. Context:
    /// sleeping, no lock held.
    ///
    /// Waits for the actor that goes to ERROR. The request that the connection has failed with may
    /// still be in the ring, and that actor alone knows its status.
    #[cold]
    pub(crate) fn flush_requests(self: &Arc<Self>) {
        let sends = {
            let _end = self.teardown.lock();
            let queues = &self.queues;
            queues.sq.flush_ring(None, queues.send_out())
        };
        self.after_send(sends);
    }

    /// TCP has no memory. It reports room only when data that it has sent are acknowledged, and
    /// there may be none. So the timer has tx try again in a while. Context: any, as the holder of
    /// the tx lock.
    pub(super) fn await_memory(self: &Arc<Self>) {
        const MS: u32 = 20;
        self.arm_poll(MS);
    }

    /// Arms the timer that flushes late posts. A process posts receives into its mapping without
    /// telling anybody, and rings the doorbell for a request only if all earlier ones were taken.
    /// (A kernel consumer's post is a call.) `end` is locked.
    pub(super) fn await_late_posts(self: &Arc<Self>, end: &mut Teardown) {
        const MIN_POLL_MS: u32 = 16;
        const MAX_POLL_MS: u32 = 1024;
        if end.destroyed || !self.queues.sq.is_mapped() {
            return;
        }
        end.pause = (end.pause * 2).clamp(MIN_POLL_MS, MAX_POLL_MS);
        self.arm_poll(end.pause);
    }

    /// Arms the timer, on a work queue of normal priority. Context: any.
    fn arm_poll(self: &Arc<Self>, ms: u32) {
        let queue = self.dev().workqueues.cm.of(self.owner.consumer());
        self.poll_timer.arm(queue, self.clone(), ms);
    }

    /// Stops the timer for good. Context: sleeping; no lock is held that the timer's function
    /// takes.
    pub(super) fn end_poll(&self) {
        self.poll_timer.cancel_sync();
    }
}
