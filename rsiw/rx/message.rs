// SPDX-License-Identifier: GPL-2.0

//! Carries out received messages: completes receives, queues the peer's requests, and ends this
//! end's own.

use super::{handler::QpHandler, Destination};
use crate::{
    abi::opcode,
    mem::{Access, MemError, ResolvedMr},
    queue::{
        reads::{Asked, InboundRead, SHORT_READ},
        sq::WakeTx,
    },
    wr::{Completion, Status, Told},
};
use iwarp::{
    conn::rnr::RnrRetry,
    rdmap::{AtomicOp, AtomicRequest, AtomicResponse, ATOMIC_LEN},
    rx::Refusal,
    ReadRequest, SharedByte, Stag,
};
use trace::Stall;

impl QpHandler<'_> {
    //= 5040-5.5-1
    pub(super) fn received(
        &mut self,
        len: u32,
        solicited: bool,
        invalidate: Option<Stag>,
    ) -> Result<(), Refusal> {
        if let Some(stag) = invalidate {
            self.invalidate(stag)?;
        }
        let told = invalidate.map_or(Told::NOTHING, |stag| Told::invalidated(stag.0));
        self.complete_recv(opcode::RECEIVE, len, told, solicited)
    }

    //= 7306-6.1-2
    /// Immediate Data has come. Its completion tells the length of the Write before it, which with
    /// it is a Write with immediate data; alone, it is one of no bytes.
    pub(super) fn immediate(&mut self, data: [u8; 4], solicited: bool) -> Result<(), Refusal> {
        let (len, told) = (self.st.written, Told::immediate(data));
        self.complete_recv(opcode::RECEIVE_IMM, len, told, solicited)
    }

    #[inline]
    pub(super) fn complete_recv(
        &mut self,
        opcode: u8,
        bytes: u32,
        told: Told,
        solicited: bool,
    ) -> Result<(), Refusal> {
        let recv = self.st.recv.active().ok_or(Refusal::Local)?;
        recv.active = false;
        let c = Completion {
            opcode,
            told,
            solicited,
            ..Completion::recv(recv.rqe.id, Status::Success, bytes)
        };
        self.st.written = 0;
        self.st.destination = Destination::None;
        self.st.recv_notify |= self.queues.recv_out().complete(c);
        Ok(())
    }

    //= 5040-5.3-10a, 5040-5.3-10b, 5040-7.2-4, 5040-7.2-5
    /// The peer invalidates an STag that it was given.
    fn invalidate(&self, stag: Stag) -> Result<(), Refusal> {
        let region = self
            .queues
            .dev
            .regions
            .find(stag.0)
            .ok_or(Refusal::InvalidStag)?;
        let (queues, pd) = (self.queues, &self.queues.pd);
        if region.pd() != pd.id() {
            return Err(Refusal::CannotInvalidate);
        }
        region.invalidate_by_peer(stag.0, queues.number(), !pd.is_shared())
    }

    //= 5040-5.2.1-3, 5040-5.2.1-4, 5040-5.2.1-5, 5040-5.2.1-13, 5040-5.2.1-14, 5041-7.1-1b
    pub(super) fn read_request(&mut self, request: ReadRequest) -> Result<(), Refusal> {
        let source = match request.len {
            // RFC 5040 section 5.2.1: the STag of a zero-length Read is not checked.
            0 => {
                let told = RnrRetry::from_offset(request.src_to);
                if let Some(told) = told.filter(|_| self.queues.dev.is_rc()) {
                    self.st.rnr_retry = told;
                }
                None
            }
            len => {
                let (key, pd) = (request.src_stag.0, self.queues.pd.id());
                let needs = self.st.read_needs;
                let (cached, range) = (&mut self.st.source, (request.src_to.0, len));
                let (regions, qpn) = (&self.queues.dev.regions, || self.queues.number());
                let resolved = regions.resolve_cached_for(qpn, cached, key, pd, range, needs);
                Some(resolved.map_err(MemError::refusal)?.clone())
            }
        };
        self.ask(Asked::Read(request), source)?;
        if request.len <= SHORT_READ {
            self.st.answer = true;
        } else {
            self.st.wake = WakeTx(true);
        }
        Ok(())
    }

    //= 7306-9-1
    /// Tx executes the operation, in the order of the peer's requests, and finds whether the memory
    /// is aligned: the TO "MAY start at an arbitrary offset" (RFC 7306 section 5.2.1). Only an
    /// atomic Write is executed here.
    pub(super) fn atomic_request(&mut self, request: AtomicRequest) -> Result<(), Refusal> {
        let (key, pd) = (request.stag.0, self.queues.pd.id());
        let (needs, len) = match request.op {
            AtomicOp::Write { .. } => (self.st.write_needs, ATOMIC_LEN),
            // No memory here is persistent.
            AtomicOp::Flush(flush) if flush.persistent => (Access::NEVER, 0),
            // No bytes are within any bounds.
            AtomicOp::Flush(flush) => (self.st.flush_needs, if flush.all { 0 } else { flush.len }),
            _ => (self.st.atomic_needs, ATOMIC_LEN),
        };
        let range = (request.to.0, len);
        let (cached, regions) = (&mut self.st.source, &self.queues.dev.regions);
        let qpn = || self.queues.number();
        let target = regions.resolve_cached_for(qpn, cached, key, pd, range, needs);
        let target = target.map_err(MemError::refusal)?.clone();
        if let AtomicOp::Write { .. } = request.op {
            if !self.queues.inbound.has_room_for_atomic(self.st.read_msn) {
                return Err(Refusal::ReadQueueFull);
            }
            // Now, as what comes behind it is placed when it comes. The answer tells nothing of the
            // memory, which the peer may not be allowed to read.
            let wrote = target.atomic(request.to.0, request.op);
            wrote.map_err(MemError::refusal)?;
        }
        self.ask(Asked::Atomic(request), Some(target))?;
        self.st.answer = true;
        Ok(())
    }

    /// Queues a request of the peer for tx.
    fn ask(&mut self, asked: Asked, source: Option<ResolvedMr>) -> Result<(), Refusal> {
        self.st.written = 0;
        let msn = self.st.read_msn;
        self.st.read_msn = msn.next();
        let pushed = self.queues.inbound.push(InboundRead { msn, asked, source });
        if pushed.map_err(|_| Refusal::ReadQueueFull)? {
            self.queues.counters.rx_stalls_ird.add_alone(1);
            self.queues.trace_stall(Stall::Ird);
        }
        Ok(())
    }

    //= 7306-5.1.1-5, 7306-5.4-1, 7306-5.4-7
    /// The answer to the oldest request has to come first: the peer answers in order.
    pub(super) fn atomic_response(&mut self, response: AtomicResponse) -> Result<(), Refusal> {
        let read = self.queues.sq.take_read_head(Some(response.id));
        let read = read.ok_or(Refusal::Unexpected)?;
        // A flush and an atomic Write have none.
        if let Some(sink) = &read.sink {
            let value = response.value.to_ne_bytes().map(SharedByte::new);
            if let Err(e) = sink.write_sge(&mut self.st.access, &read.sge, 0, &value) {
                // The consumer has taken away the sink of its own request.
                self.queues.note_failure(read.seq, e.into());
                return Err(Refusal::Local);
            }
        }
        self.answered();
        Ok(())
    }

    //= 5040-5.2.2-4, 5040-5.5-2, 5040-5.5-9
    pub(super) fn read_done(&mut self) {
        if let Some(read) = self.st.read.take() {
            if let (true, Some(resolved)) = (read.invalidate, &read.sink) {
                resolved.invalidate();
            }
        }
        self.st.destination = Destination::None;
        self.answered();
    }

    /// The answer to the oldest request of this end has come.
    fn answered(&mut self) {
        let (notify, wake) = self.queues.sq.complete_oldest_read(self.queues.send_out());
        self.st.send_notify |= notify;
        // An orderly close may have waited for this response.
        let closing = WakeTx(self.queues.is_closing());
        self.st.wake = self.st.wake.or(wake).or(closing);
    }

    /// Notes the peer's first FPDU, which lets a responder send (RFC 5044 section 7.1.2).
    pub(super) fn started(&mut self) {
        if !self.st.peer_started {
            self.st.peer_started = true;
            if !self.queues.set_may_send(true) {
                self.st.starts = true;
                self.st.wake = WakeTx(true);
            }
        }
    }
}
