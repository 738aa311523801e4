// SPDX-License-Identifier: GPL-2.0

//! Faults of a connection, and the way to ERROR.
//!
//! Rx finds a fault if the peer breaks a rule, tx if a request cannot be sent, and the peer reports
//! one by a Terminate. The finder notes the fault and moves the QP to TERMINATE. Tx then sends a
//! Terminate, unless the peer has sent one. Afterwards the connection is closed, which leads to
//! [`Stream::enter_error`], the one place where the queues are flushed.

use super::{Sender, Stream, Teardown};
use crate::{
    cm::Close,
    cq::Notify,
    queue::state::State,
    rx::RxEnd,
    tx::{Failed, Tx},
    wr::{Completion, Status},
};
use core::{fmt::Arguments, format_args, net::SocketAddr};
use iwarp::{
    rdmap::Opcode,
    rx::{Fault, FaultKind},
    TermCode, Terminate,
};
use kernel::{prelude::*, sync::Arc};
use rdma::QpEvent;

impl Stream {
    /// Rx has found why the stream ends. Context: any, socket locked.
    #[cold]
    pub(super) fn rx_ended(self: &Arc<Self>, end: RxEnd) {
        match end {
            RxEnd::Fault(fault, terminate) => self.peer_fault(&fault, terminate),
            RxEnd::Terminated(term) => self.peer_terminated(&term),
        }
    }

    /// Rx has found a fault in the data of the peer, or ([`FaultKind::Local`]) in a receive of the
    /// consumer. Context: callback.
    fn peer_fault(self: &Arc<Self>, fault: &Fault, terminate: Option<Terminate>) {
        let counters = &self.queues.counters;
        let event = match fault.kind() {
            FaultKind::Crc => {
                counters.rx_crc_errors.add(1);
                self.trace_refused(TermCode::MPA_CRC);
                QpEvent::Fatal
            }
            FaultKind::Local => QpEvent::Fatal,
            FaultKind::Framing => {
                counters.peer_fault(TermCode::MPA_FPDU_START);
                self.trace_refused(TermCode::MPA_FPDU_START);
                QpEvent::RequestError
            }
            FaultKind::Ddp(code) | FaultKind::Rdmap(code) => {
                counters.peer_fault(code);
                self.trace_refused(code);
                QpEvent::AccessError
            }
        };
        let (reason, peer) = (fault.reason(), self.peer());
        if self.begin_terminate(terminate) {
            self.warn(peer, format_args!("{reason}; stream terminated"));
            self.handle.event(event);
        } else {
            self.warn(peer, format_args!("{reason}"));
        }
    }

    fn trace_refused(&self, code: TermCode) {
        trace::refused(|| {
            let [layer, etype, code] = code.numbers();
            (self.dev().name(), self.queues.number(), layer, etype, code)
        });
    }

    /// The peer has sent a Terminate: it has found a fault in the data of this end. Context:
    /// callback.
    fn peer_terminated(&self, t: &Terminate) {
        self.queues.counters.terminate_received(t.code());
        self.dev().terminates_received.count(t.code());
        trace::terminate(|| self.queues.trace_terminate(false, t.code()));
        // A Read that the peer refuses is the oldest outstanding one, as the peer serves them in
        // order. A Write or a Send has completed already, and only the event tells of its failure.
        if let Some(read) = self.queues.sq.read_head() {
            if let Some(status) = refused_read(t, read.atomic.is_some()) {
                self.queues.note_failure(read.seq, status);
            }
        }
        self.warn(
            self.peer(),
            format_args!("stream terminated by the peer: {t}"),
        );
        if self.queues.advance(State::Terminate).is_ok() {
            self.close_conn(Close::Flush);
            self.handle.event(QpEvent::Fatal);
        }
    }

    /// Tx found that a request cannot be sent, or that one of the peer cannot be answered. Context:
    /// tx.
    pub(super) fn local_fault(self: &Arc<Self>, failed: Failed) {
        let of_peer = failed.terminate.as_ref().map(Terminate::code);
        let term = failed
            .terminate
            .unwrap_or(Terminate::new(TermCode::LOCAL_CATASTROPHIC));
        if let Some(code) = of_peer {
            self.queues.counters.peer_fault(code);
            self.trace_refused(code);
        }
        self.queues.note_failure(failed.seq, failed.status);
        let peer = self.peer();
        if self.begin_terminate(Some(term)) && failed.seq.is_none() {
            // No request of the consumer has failed.
            if of_peer.is_some() {
                self.warn(
                    peer,
                    format_args!("refused a Read or an atomic; stream terminated"),
                );
            }
            self.handle.event(QpEvent::AccessError);
        }
    }

    /// A completion was lost, so the consumer can rely on nothing of this QP any more. Context:
    /// any.
    pub(super) fn cq_overflow(self: &Arc<Self>) {
        self.queues.counters.cq_overflows.add(1);
        let term = Terminate::new(TermCode::LOCAL_CATASTROPHIC);
        let peer = self.peer();
        let what = if self.begin_terminate(Some(term)) {
            format_args!("completion queue overflow; stream terminated")
        } else {
            format_args!("completion queue overflow")
        };
        self.warn(peer, what);
    }

    /// The peer's address, for the log. A connection that ends is soon gone, so ask first. Context:
    /// any, without the lock of `shared`.
    fn peer(&self) -> Option<SocketAddr> {
        self.shared.lock().conn.as_ref().and_then(|c| c.peer())
    }

    /// Logs what happened to the connection, rate-limited. Context: any.
    fn warn(&self, peer: Option<SocketAddr>, what: Arguments<'_>) {
        let Some(handle) = self.dev().handle() else {
            return;
        };
        let (name, qpn) = (handle.name(), self.queues.number());
        match peer {
            Some(peer) => kext::ratelimited_warn!(name, "QP {qpn}, peer {peer}: {what}\n"),
            None => kext::ratelimited_warn!(name, "QP {qpn}: {what}\n"),
        }
    }

    /// Goes to TERMINATE and has tx send `terminate`; false if the QP is neither in RTS nor in
    /// CLOSING.
    fn begin_terminate(self: &Arc<Self>, terminate: Option<Terminate>) -> bool {
        // Under the lock: a reset, which forgets the Terminate under it, is before or after this.
        let shared = &mut *self.shared.lock();
        if self.queues.advance(State::Terminate).is_err() {
            return false;
        }
        // The FIN may be with TCP, which takes nothing behind it (with TLS, to try resets the
        // connection). It still delivers what is before it: requests that have completed.
        shared.terminate = terminate.filter(|_| !shared.fin);
        if let Some(conn) = &shared.conn {
            conn.faulted();
        }
        self.wake_tx();
        true
    }

    /// In an orderly close, `tx` has sent all: it sends no more, and the FIN may be sent. False if
    /// a fault has come first, for which a Terminate is due. Context: tx.
    pub(super) fn begin_fin(&self, tx: &mut Tx) -> bool {
        // Under the lock: a fault comes before or after this.
        let shared = &mut *self.shared.lock();
        shared.fin = self.queues.is_closing();
        if shared.fin {
            tx.end();
        }
        shared.fin
    }

    /// The Terminate to send, once. Context: tx.
    pub(super) fn take_terminate(&self) -> Option<Terminate> {
        self.shared.lock().terminate.take()
    }

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
        let sender = if end.flushed {
            None
        } else {
            self.flush(&mut end)
        };
        if let Some(how) = close {
            self.close_conn(how);
        }
        drop(end);
        // References to regions and to the connection are dropped here, where sleeping is allowed.
        drop(sender);
    }

    /// The way to ERROR: stops tx and rx, then completes everything that is outstanding, in order.
    /// The connection sends what the stream is still to end with. Returns what is to be dropped
    /// without the lock. Context: sleeping.
    fn flush(self: &Arc<Self>, end: &mut Teardown) -> Option<Sender> {
        let (mut sender, recv) = self.halt(end);
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
        leave_rest(&mut sender);
        sender
    }

    /// Goes to ERROR and stops tx and rx. Returns what is to be dropped without the lock, and the
    /// receive that was being filled. Context: sleeping, `teardown` locked.
    fn halt(&self, end: &mut Teardown) -> (Option<Sender>, Option<(u64, Status)>) {
        let _ = self.queues.advance(State::Error);
        // Waits until a run of tx that is under way has ended; later runs find no `Tx`.
        let sender = self.tx.lock().take();
        let recv = self.stop_rx().or(end.take_filling());
        self.queues.inbound.clear();
        (sender, recv)
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
            (sender, _) = self.halt(&mut end);
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

/// Has the connection send what tx has left of a batch, so that the stream does not end within an
/// FPDU.
fn leave_rest(sender: &mut Option<Sender>) {
    if let Some(Sender { tx, conn }) = sender {
        if let Some(rest) = tx.leave() {
            conn.take_over(rest);
        }
    }
}

/// With what status the oldest Read or atomic operation fails, if the peer refuses it by `t`.
fn refused_read(t: &Terminate, is_atomic: bool) -> Option<Status> {
    if t.read_request().is_some() {
        return Some(Status::RemAccess);
    }
    // Peers that do not know an Atomic Request may leave out its header.
    if !is_atomic || !matches!(t.opcode(), None | Some(Opcode::AtomicRequest)) {
        return None;
    }
    match t.code() {
        TermCode::UNEXPECTED_OPCODE | TermCode::CATASTROPHIC_STREAM => Some(Status::RemInvReq),
        code if code.is_protection() => Some(Status::RemAccess),
        _ => None,
    }
}
