// SPDX-License-Identifier: GPL-2.0

//! Faults of a connection.
//!
//! Rx finds a fault if the peer breaks a rule, tx if a request cannot be sent, and the peer reports
//! one by a Terminate. The finder notes the fault and moves the QP to TERMINATE. Tx then sends a
//! Terminate, unless the peer has sent one. Afterwards the connection is closed, which leads to
//! [`Stream::enter_error`] ([`teardown`](super::teardown)).

use super::Stream;
use crate::{
    cm::Close,
    queue::state::State,
    rx::RxEnd,
    tx::{Failed, Tx},
    wr::Status,
};
use core::{fmt::Arguments, format_args, net::SocketAddr};
use iwarp::{
    rdmap::Opcode,
    rx::{Fault, FaultKind},
    TermCode, Terminate,
};
use kernel::sync::Arc;
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

    //= 5040-7.1-1: the RDMAP layer MUST attempt to inform the local
    //= 5041-8.3-4: DDP Stream, DDP MUST pass the invalid access attempt
    //= 5041-6.2.2-1, 5041-8.2-1, 5044-8-4
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
        let terminates = match self.end_behind_answers(fault, terminate) {
            Ok(()) => true,
            Err(terminate) => self.begin_terminate(terminate),
        };
        if terminates {
            self.warn(peer, format_args!("{reason}; stream terminated"));
            self.handle.event(event);
        } else {
            self.warn(peer, format_args!("{reason}"));
        }
    }

    /// Has tx answer what the peer asked for before its fault, and then send `terminate`. So what
    /// was good is done, and what the Terminate refuses is the oldest request that the peer has no
    /// answer to. Context: callback.
    ///
    /// # Errors
    ///
    /// Returns the Terminate if it has to go at once: nothing is to be answered, or nothing can be,
    /// or the bytes are not the peer's.
    fn end_behind_answers(
        self: &Arc<Self>,
        fault: &Fault,
        terminate: Option<Terminate>,
    ) -> Result<(), Option<Terminate>> {
        let term = match (fault.kind(), terminate) {
            (FaultKind::Ddp(_) | FaultKind::Rdmap(_), Some(term)) => term,
            (_, terminate) => return Err(terminate),
        };
        // Under the lock: tx sends nothing behind the FIN, and looks for a fault before it.
        let shared = self.shared.lock();
        if shared.fin || !self.queues.may_receive() {
            return Err(Some(term));
        }
        self.queues.inbound.end_by(term).map_err(Some)?;
        drop(shared);
        self.wake_tx();
        Ok(())
    }

    fn trace_refused(&self, code: TermCode) {
        trace::refused(|| {
            let [layer, etype, code] = code.numbers();
            (self.dev().name(), self.queues.number(), layer, etype, code)
        });
    }

    //= 5040-5.4-7
    /// The peer has sent a Terminate: it has found a fault in the data of this end. Context:
    /// callback.
    fn peer_terminated(&self, t: &Terminate) {
        self.queues.counters.terminate_received(t.code());
        self.dev().terminates_received.count(t.code());
        trace::terminate(|| self.queues.trace_terminate(false, t.code()));
        // A Send or a Write that waits for no confirmation has completed already. Only the event
        // tells of its failure.
        if t.opcode() == Some(Opcode::Write) {
            let failed = self.queues.sq.refused_write();
            self.queues.note_failure(failed, Status::RemAccess);
        }
        let failed = t
            .send_msn()
            .and_then(|msn| self.queues.sq.unplaced_send(msn));
        if let (Some(seq), Some(status)) = (failed, self.refused_send(t)) {
            self.queues.sq.refused(seq);
            self.queues.note_failure(failed, status);
        }
        if let Some((seq, is_atomic)) = self.queues.sq.outstanding_read(t.read_msn()) {
            if let Some(status) = refused_read(t, is_atomic) {
                seq.inspect(|&seq| self.queues.sq.refused(seq));
                self.queues.note_failure(seq, status);
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

    /// With what status a Send fails, if the peer refuses it by `t`.
    fn refused_send(&self, t: &Terminate) -> Option<Status> {
        match t.code() {
            TermCode::NO_BUFFER => Some(self.queues.sq.known_status(Status::RnrRetry)),
            // It is too long, or of a kind that the peer does not take.
            TermCode::MESSAGE_TOO_LONG | TermCode::UNEXPECTED_OPCODE => Some(Status::RemInvReq),
            // The peer does not let it invalidate that STag.
            code if code.is_protection() => Some(Status::RemAccess),
            _ => None,
        }
    }

    //= 5040-7.1-1, 7306-8.1-2
    /// Tx found that a request cannot be sent, or that one of the peer cannot be answered. Context:
    /// tx.
    pub(super) fn local_fault(self: &Arc<Self>, failed: Failed) {
        if failed.told {
            self.begin_terminate(failed.terminate);
            return;
        }
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

    //= 5040-8.1.1-11
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

    //= 5040-7.1-2
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
        shared.fin = self.queues.is_closing() && !self.queues.inbound.has_fault();
        if shared.fin {
            tx.end();
        }
        shared.fin
    }

    /// The Terminate to send, once. Context: tx.
    pub(super) fn take_terminate(&self) -> Option<Terminate> {
        self.shared.lock().terminate.take()
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
        // The error of that name is found before the first request is sent. It is what siw makes of
        // an unexpected opcode, as it has Layer and Error Type in each other's place.
        TermCode::MPA_INSUFFICIENT_IRD => Some(Status::RemInvReq),
        TermCode::CATASTROPHIC_GLOBAL | TermCode::OPERATION_UNSPECIFIED => Some(Status::RemOp),
        code if code.is_protection() => Some(Status::RemAccess),
        _ => None,
    }
}
