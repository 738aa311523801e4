// SPDX-License-Identifier: GPL-2.0

//! What goes wrong on a connection, and the way to ERROR.
//!
//! A fault is found by rx (the peer broke a rule), by tx (a request cannot be sent), or reported by
//! the peer's Terminate. The finder only notes it, moves the QP to TERMINATE, and has tx send the
//! Terminate message; the connection's close then leads to [`Qp::enter_error`], which is the one
//! place where queues are flushed.

use super::{sq::Seq, Qp, State, Teardown};
use crate::{
    cm::Close,
    cq::Notify,
    tx::Failed,
    wr::{Completion, Status},
};
use core::{fmt::Arguments, format_args};
use iwarp::{
    rx::{Fault, FaultKind},
    TermCode, Terminate,
};
use kernel::sync::Arc;
use kext::work::DelayedWorkItem;
use rdma::QpEvent;

impl DelayedWorkItem for Qp {
    fn expire(this: Arc<Self>) {
        let mut end = this.teardown.lock();
        if end.destroyed {
            return;
        }
        if !end.flushed {
            drop(end);
            return this.wake_tx();
        }
        this.await_late(&mut end);
        let sends = this.sq.flush_ring(this.send_out());
        let receives = if this.rq_is_shared {
            Notify::default()
        } else {
            this.rq.flush(None, this.recv_out())
        };
        drop(end);
        this.after_send(sends);
        this.after_recv(receives);
    }
}

impl Qp {
    /// Notes the request that the connection fails with; the first note counts. `None` is the Read
    /// of connection setup, whose failure is nobody's. Context: any.
    pub(crate) fn note_failure(&self, seq: Option<Seq>, status: Status) {
        if let Some(seq) = seq {
            self.shared.lock().failure.get_or_insert((seq, status));
        }
    }

    /// Rx found a fault in what the peer sent (or, [`FaultKind::Local`], in what the consumer gave
    /// it to receive with). Context: callback.
    pub(crate) fn peer_fault(self: &Arc<Self>, fault: &Fault, terminate: Option<Terminate>) {
        let counters = &self.dev.counters;
        let (event, counter) = match fault.kind() {
            FaultKind::Crc => (QpEvent::Fatal, Some(&counters.rx_crc_errors)),
            FaultKind::Local => (QpEvent::Fatal, None),
            FaultKind::Framing => (QpEvent::RequestError, Some(&counters.rx_faults)),
            FaultKind::Ddp(_) | FaultKind::Rdmap(_) => {
                (QpEvent::AccessError, Some(&counters.rx_faults))
            }
        };
        if let Some(counter) = counter {
            counter.add(1);
        }
        self.warn(format_args!("{}; stream terminated", fault.reason()));
        if self.begin_terminate(terminate) {
            self.handle.event(event);
        }
    }

    /// The peer sent a Terminate: it found a fault in what we sent. Context: callback.
    pub(crate) fn peer_terminated(&self, t: &Terminate) {
        self.dev.counters.rx_terminates.add(1);
        // A refused Read is the oldest that is outstanding: the peer serves them in order. A Write
        // or a Send has completed already, and only the event tells.
        if t.read_request().is_some() {
            self.note_failure(self.sq.oldest_read(), Status::RemAccess);
        }
        self.warn(format_args!("stream terminated by the peer: {t}"));
        if self.state.advance(State::Terminate).is_ok() {
            self.close_conn(Close::Flush);
            self.handle.event(QpEvent::Fatal);
        }
    }

    /// Tx found that a request cannot be sent. Context: tx.
    pub(crate) fn local_fault(self: &Arc<Self>, failed: Failed) {
        let term = failed
            .terminate
            .unwrap_or(Terminate::new(TermCode::LOCAL_CATASTROPHIC));
        self.note_failure(failed.seq, failed.status);
        if self.begin_terminate(Some(term)) && failed.seq.is_none() {
            // Nothing of the consumer's own failed: a Read of the peer did.
            self.handle.event(QpEvent::AccessError);
        }
    }

    /// A completion was lost: nothing of the QP can be relied on. Context: any.
    pub(crate) fn cq_overflow(self: &Arc<Self>) {
        self.dev.counters.cq_overflows.add(1);
        self.warn(format_args!("completion queue overflow; stream terminated"));
        self.begin_terminate(Some(Terminate::new(TermCode::LOCAL_CATASTROPHIC)));
    }

    /// Tells the log, now and then, what happened to the connection. Context: any, without
    /// `shared`.
    fn warn(&self, what: Arguments<'_>) {
        let Some(handle) = self.dev.handle() else {
            return;
        };
        let (name, qpn) = (handle.name(), self.number());
        let peer = self.shared.lock().conn.as_ref().and_then(|c| c.peer());
        match peer {
            Some(peer) => kext::ratelimited_warn!(name, "QP {qpn}, peer {peer}: {what}\n"),
            None => kext::ratelimited_warn!(name, "QP {qpn}: {what}\n"),
        }
    }

    /// Goes to TERMINATE and has `terminate` sent; false if the QP is on its way down already.
    fn begin_terminate(self: &Arc<Self>, terminate: Option<Terminate>) -> bool {
        if self.state.advance(State::Terminate).is_err() {
            return false;
        }
        let shared = &mut *self.shared.lock();
        shared.terminate = terminate;
        if let Some(conn) = &shared.conn {
            conn.faulted();
        }
        self.wake_tx();
        true
    }

    /// The Terminate to send, once. Context: tx.
    pub(crate) fn take_terminate(&self) -> Option<Terminate> {
        self.shared.lock().terminate.take()
    }

    /// Has the connection closed, if there is one. Context: any.
    pub(crate) fn close_conn(&self, how: Close) {
        if let Some(conn) = &self.shared.lock().conn {
            conn.close(how);
        }
    }

    /// Modify to ERROR, and the first half of destruction: everything outstanding completes, and
    /// the connection goes. What TCP has taken is still delivered, as its requests have completed.
    /// Context: sleeping.
    pub(crate) fn fail(self: &Arc<Self>) {
        self.enter_error();
        self.close_conn(Close::Flush);
    }

    /// To ERROR: stops both halves, then completes everything that is outstanding, in order.
    /// Idempotent. What the stream is still to end with is left to the connection. Context:
    /// sleeping.
    pub(crate) fn enter_error(self: &Arc<Self>) {
        let _ = self.state.advance(State::Error);
        let mut end = self.teardown.lock();
        if end.flushed {
            return;
        }
        // Waits for a run under way; later ones find nothing.
        let mut tx = self.tx.lock().take();
        let recv = self.stop_rx();
        self.inbound.clear();
        let failure = self.shared.lock().failure.take();
        let sent = self.sq.flush(failure, self.send_out());
        self.after_send(sent);
        if self.rq_is_shared {
            let n = self.complete_recv(recv);
            self.after_recv(n);
            self.handle.event(QpEvent::LastWqeReached);
        } else {
            let n = self.rq.flush(recv, self.recv_out());
            self.after_recv(n);
        }
        end.flushed = true;
        self.await_late(&mut end);
        // Before anybody else finds the queues flushed, and closes.
        if let Some(tx) = &mut tx {
            tx.leave();
        }
        drop(end);
        // References to regions and to the connection go here, where sleeping is allowed.
        drop(tx);
    }

    /// Sets the timer that looks for what comes late: a process posts receives into its mapping and
    /// tells nobody, and of requests it does not tell while there are others before them. (A kernel
    /// consumer's post is a call.)
    fn await_late(self: &Arc<Self>, end: &mut Teardown) {
        const FIRST: u32 = 16;
        const LAST: u32 = 1024;
        if end.destroyed || !self.sq.is_mapped() {
            return;
        }
        end.pause = (end.pause * 2).clamp(FIRST, LAST);
        self.poll_timer
            .arm(&self.dev.queues.tx_in_turn, self.clone(), end.pause);
    }

    /// TCP has no memory. It tells of room only when what it has sent is acknowledged, and there may
    /// be nothing: tx looks again in a while. Context: any, as the holder of the tx lock.
    pub(crate) fn await_memory(self: &Arc<Self>) {
        const MS: u32 = 20;
        self.poll_timer
            .arm(&self.dev.queues.tx_in_turn, self.clone(), MS);
    }

    /// The consumer destroys the QP: to ERROR, and nothing happens to it afterwards. Context:
    /// sleeping.
    pub(crate) fn end(self: &Arc<Self>) {
        self.teardown.lock().destroyed = true;
        self.fail();
        // No lock is held that its call takes.
        self.poll_timer.cancel_sync();
        self.end_notify();
    }

    /// Stops receiving; returns the receive that was being filled.
    fn stop_rx(&self) -> Option<(u64, Status)> {
        let conn = self.shared.lock().conn.clone()?;
        let mut sk = conn.socket().lock();
        self.rx
            .get_mut(&mut sk)
            .and_then(Option::as_mut)
            .and_then(|rx| rx.stop())
    }

    fn complete_recv(&self, recv: Option<(u64, Status)>) -> Notify {
        match recv {
            Some((id, status)) => self.recv_out().complete(Completion::recv(id, status, 0)),
            None => Default::default(),
        }
    }
}
