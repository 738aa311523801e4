// SPDX-License-Identifier: GPL-2.0

//! Teardown: the way to ERROR, which stops tx and rx and then flushes the queues, and the end of
//! the queue pair. What a process posts later is flushed by the [timer](super::poll_timer), also
//! with `teardown` locked; what a kernel consumer posts completes at once.

use super::{Conn, Sender, Stream, Teardown};
use crate::{
    cm::Close,
    cq::Notify,
    queue::state::State,
    tx::Tx,
    wr::{Completion, Status},
};
use kernel::{
    pr_warn_once,
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
};
use rdma::QpEvent;

/// How long, in milliseconds at least, the end of a stream waits for devices that hold packets with
/// memory of the consumer. The kernel resets a device that is stuck for 5 s, mostly.
const RELEASE_MS: u32 = 60_000;

impl Stream {
    /// Modify to ERROR, and the first half of destruction: completes everything outstanding and has
    /// the connection closed. Data that TCP has taken are still delivered, as their requests have
    /// completed. Without effect if the QP was reset since `life`, as it was in ERROR then.
    /// Context: sleeping.
    pub(crate) fn fail(self: &Arc<Self>, life: u32) {
        self.enter_error(life, Some(Close::Flush));
    }

    /// Goes to ERROR, and has the connection closed if `close` says how. Idempotent. Without effect
    /// if the QP was reset since `life`. Context: sleeping.
    pub(super) fn enter_error(self: &Arc<Self>, life: u32, close: Option<Close>) {
        // Held to the end, so that no reset comes between.
        let mut end = self.teardown.lock();
        if life != self.life() {
            return;
        }
        let mut sender = None;
        if !end.flushed {
            self.flush(&mut end, &mut sender);
        }
        if let Some(how) = close {
            self.close_conn(how);
        }
        drop(end);
        // References to regions and to the connection are dropped here, where sleeping is allowed.
        drop(sender);
    }

    /// The way to ERROR: stops tx and rx, then completes everything that is outstanding, in order.
    /// The connection sends what the stream is still to end with. `sender` gets what is to be
    /// dropped without the lock. Context: sleeping.
    fn flush(self: &Arc<Self>, end: &mut Teardown, sender: &mut Option<Sender>) {
        let recv = self.halt(end, sender);
        let queues = &self.queues;
        let sent = queues.sq.flush(queues.take_failure(), queues.send_out());
        self.after_send(sent);
        if queues.rq_is_shared() {
            let n = self.complete_recv(recv);
            self.after_recv(n);
            self.handle.event(QpEvent::LastWqeReached);
        } else {
            let n = queues.rq.flush(recv, queues.recv_out());
            self.after_recv(n);
        }
        end.flushed = true;
        self.await_late_posts(end);
        // Before other actors find the queues flushed, and close the connection.
        leave_rest(sender);
    }

    /// Goes to ERROR and stops tx and rx. Returns the receive that was being filled; `sender` gets
    /// what is to be dropped without the lock. Context: sleeping, `teardown` locked.
    fn halt(
        self: &Arc<Self>,
        end: &mut Teardown,
        sender: &mut Option<Sender>,
    ) -> Option<(u64, Status)> {
        let _ = self.queues.advance(State::Error);
        // Waits until a run of tx that is under way has ended; later runs find no `Tx`. That is
        // large, so it is moved once.
        self.with_tx(|slot| *sender = slot.take());
        let recv = self.stop_rx().or(end.take_filling());
        if let Some(Sender { tx, conn }) = sender {
            tx.last_answers(&self.queues, conn.transport());
            if tx.must_reset() {
                conn.reset();
                await_release(tx, conn);
            }
        }
        self.queues.inbound.clear();
        recv
    }

    /// Goes to ERROR as [`Self::enter_error`] does, but nothing completes: what is posted is
    /// forgotten. Errors: `EINVAL` if the QP is destroyed, or was reset since `life`. Context:
    /// sleeping; the consumer posts nothing meanwhile.
    pub(super) fn forget(self: &Arc<Self>, life: u32) -> Result {
        let mut end = self.teardown.lock();
        if end.destroyed || life != self.life() {
            return Err(EINVAL);
        }
        let mut sender = None;
        if !end.flushed {
            self.halt(&mut end, &mut sender);
            self.discard_posted();
            end.flushed = true;
            leave_rest(&mut sender);
        }
        self.close_conn(Close::Flush);
        drop(end);
        drop(sender);
        Ok(())
    }

    /// The consumer destroys the QP: goes to ERROR, and nothing happens to the QP afterwards.
    /// Context: sleeping.
    pub(crate) fn end(self: &Arc<Self>) {
        // From here on nobody resets it.
        self.teardown.lock().destroyed = true;
        self.fail(self.life());
        self.end_poll();
        self.end_retry();
        self.end_notify();
        // A connection that lingers has its share.
        let account = self.shared.lock().account.take();
        drop(account);
    }

    /// Forgets all that is posted to the QP's own queues, without completions. Context: sleeping,
    /// `teardown` locked and tx stopped.
    pub(super) fn discard_posted(&self) {
        self.queues.sq.discard();
        if !self.queues.rq_is_shared() {
            self.queues.rq.discard();
        }
    }

    fn complete_recv(&self, recv: Option<(u64, Status)>) -> Notify {
        match recv {
            Some((id, status)) => self
                .queues
                .recv_out()
                .complete(Completion::recv(id, status, 0)),
            None => Default::default(),
        }
    }
}

/// Waits until TCP, which was reset, has released the memory that it sends from: the consumer gets
/// it back next. Devices hold packets for a moment. Context: sleeping.
fn await_release(tx: &mut Tx, conn: &Conn) {
    for _ in 0..RELEASE_MS {
        if !tx.lends_still(conn.transport()) {
            return;
        }
        fsleep(Delta::from_millis(1));
    }
    pr_warn_once!("packets with a consumer's memory are held for long\n");
}

/// Has the connection send what tx has left: the rest of a batch, so that the stream does not end
/// within an FPDU, or answers.
fn leave_rest(sender: &mut Option<Sender>) {
    if let Some(Sender { tx, conn }) = sender {
        if let Some(rest) = tx.leave() {
            conn.take_over(rest);
        }
    }
}
