// SPDX-License-Identifier: GPL-2.0

//! Chooses the next message, and makes messages of requests.

use super::{
    confirm::Before,
    current::Source,
    local_ops::{bind, local_invalidate, register},
    outcome::{Failed, Found},
    Tx,
};
use crate::{
    mem::{Access, MemError, ResolvedMr},
    queue::{
        reads::{Asked, InboundRead, OutstandingRead},
        sq::{Pull, ReadsBefore},
        Queues, Seq,
    },
    wr::{Extra, SendOp, Status},
};
use core::mem::replace;
use iwarp::{
    rdmap::{AtomicRequest, AtomicResponse},
    tx::Message,
    Msn, ReadRequest, Stag, TaggedOffset, Terminate,
};
use rdma::LocalSge;
use trace::Stall;

impl Tx {
    //= 6581-5-1: The RDMA connection initiator MUST NOT allow any later FULPDUs
    //= 5040-5.1-4, 5040-5.3-6, 5040-5.5-4, 5041-5.3-2, 6581-9.2-7
    /// Makes the next message of `source` the current one, if there is one.
    pub(super) fn next_message(
        &mut self,
        queues: &Queues,
        source: Source,
    ) -> Result<Found, Failed> {
        match source {
            Source::All => self.next_of_all(queues),
            Source::ShortReads => self.respond(queues.inbound.pop_short()).map(Found::message),
        }
    }

    /// Read responses and requests take turns, so that neither starves the other. Requests that
    /// need no message (local invalidation, fast registration) are carried out on the way.
    fn next_of_all(&mut self, queues: &Queues) -> Result<Found, Failed> {
        if let Some(rtr) = self.owed_rtr.take() {
            self.rtr(queues, rtr)?;
            return Ok(Found::Message);
        }
        self.response_turn = !self.response_turn;
        if self.response_turn && self.next_response(queues)? {
            return Ok(Found::Message);
        }
        if self.unconfirmed.is_much() && self.confirm(queues, false)? {
            return Ok(Found::Message);
        }
        let mut otherwise = Found::NotYet;
        // Bounds the loop. The slots bound it, too: requests without a message free none until the
        // batch is sent.
        for _ in 0..queues.sq.size() {
            if self.failing.is_some() {
                otherwise = Found::Nothing;
                break;
            }
            let waited = self.blocked.is_some();
            let seq = match self.blocked.take() {
                Some(seq) => seq,
                None => match queues.sq.pull(&mut self.wr, &mut self.rest) {
                    Pull::Wr(seq) => seq,
                    Pull::Bad(seq, status) => return Err(Failed::new(Some(seq), status)),
                    Pull::Empty => {
                        otherwise = Found::Nothing;
                        break;
                    }
                    // Requests in the batch may free slots when they are sent.
                    Pull::Full => break,
                },
            };
            if let Err(why) = queues.sq.may_start(&self.wr) {
                // Each request counts once, however often tx looks at it.
                if !waited {
                    Self::count_wait(queues, why);
                }
                self.blocked = Some(seq);
                otherwise = Found::Nothing;
                break;
            }
            if self.cfg.confirms {
                if self.wr.op.takes_receive() {
                    match self.before_send(queues, seq)? {
                        Before::Nothing => {}
                        Before::Read => {
                            self.blocked = Some(seq);
                            return Ok(Found::Message);
                        }
                        Before::Room => {
                            self.blocked = Some(seq);
                            otherwise = Found::Nothing;
                            break;
                        }
                    }
                }
                self.note_unconfirmed(queues, seq);
            }
            if self.start(queues, seq)? {
                return Ok(Found::Message);
            }
            self.built = Some(seq.wrapping_add(1));
        }
        if self.unconfirmed.is_due() && self.confirm(queues, true)? {
            return Ok(Found::Message);
        }
        let answers = self.next_response(queues)?;
        Ok(if answers { Found::Message } else { otherwise })
    }

    /// Counts a request that has to wait.
    #[cold]
    fn count_wait(queues: &Queues, why: ReadsBefore) {
        let (stalls, cause) = match why {
            ReadsBefore::Fence => (&queues.counters.tx_stalls_fence, Stall::Fence),
            ReadsBefore::Ord => (&queues.counters.tx_stalls_ord, Stall::Ord),
        };
        stalls.add_alone(1);
        queues.trace_stall(cause);
    }

    //= 5040-5.2.1-9, 5040-5.2.2-5, 5040-5.5-10
    #[inline]
    fn next_response(&mut self, queues: &Queues) -> Result<bool, Failed> {
        // Most often there is none.
        if queues.inbound.is_empty() {
            return Ok(false);
        }
        let asked = queues.inbound.pop();
        if asked.is_none() {
            if let Some(terminate) = queues.inbound.take_fault() {
                return Err(Failed::of_peer(terminate));
            }
        }
        self.respond(asked)
    }

    //= 7306-5.2.1-10, 7306-5.2.1-11
    #[inline(never)]
    pub(super) fn respond(&mut self, asked: Option<InboundRead>) -> Result<bool, Failed> {
        let Some(InboundRead { msn, asked, source }) = asked else {
            return Ok(false);
        };
        match asked {
            Asked::Read(request) => self.current.read_response(msn, request, source),
            Asked::Atomic(request) => {
                let value = execute(&request, source).map_err(|e| Failed {
                    terminate: Some(Terminate::for_atomic_request(e.code(), msn)),
                    ..Failed::memory(None, e)
                })?;
                self.atomic_response(request.id, value);
                self.current.answers = Some((msn, asked));
            }
        }
        self.ops.read_responses += 1;
        Ok(true)
    }

    //= 7306-5.2.1-3, 7306-5.2.1-17
    /// Begins the answer to an Atomic Request of the peer, which was executed.
    fn atomic_response(&mut self, id: u32, value: u64) {
        let msn = self.atomic_msn;
        self.atomic_msn = msn.next();
        let response = AtomicResponse { id, value };
        self.current.gather.clear();
        self.current
            .begin(Message::AtomicResponse { msn, response }, 0, None);
    }

    //= 5041-4.3-8
    /// Begins the message of the request in `self.wr`. If the request needs none, carries it out
    /// and returns `false`.
    fn start(&mut self, queues: &Queues, seq: Seq) -> Result<bool, Failed> {
        if self.wr.op.is_local() {
            return self.carry_out(queues, seq).map(|()| false);
        }
        let wr = &mut self.wr;
        let wrote = replace(&mut self.wrote, wr.op == SendOp::Write);
        match wr.op {
            op if op.is_atomic() => return self.atomic(queues, seq).map(|()| true),
            SendOp::Read | SendOp::ReadLocalInv => return self.read(queues, seq).map(|()| true),
            _ => {}
        }
        let gather = &mut self.current.gather;
        if let Some(sge) = wr.only_sge() {
            gather.set_sge(&queues.dev.regions, queues.pd.id(), sge)
        } else if wr.inline {
            gather.set_inline(wr.inline_data());
            Ok(())
        } else {
            let sges = Iterator::chain(wr.sges(), self.rest.iter().map(LocalSge::from));
            gather.set_sges(&queues.dev.regions, queues.pd.id(), sges)
        }
        .map_err(|e| Failed::memory(Some(seq), e))?;
        match wr.op {
            SendOp::Write => self.write(seq)?,
            SendOp::Send | SendOp::SendInv => {
                let (solicited, invalidate) = (wr.solicited, wr.op == SendOp::SendInv);
                let message = Message::Send {
                    msn: self.send_msn,
                    solicited,
                    invalidate: invalidate.then_some(Stag(wr.rkey())),
                };
                self.current.begin(message, wr.len, Some(seq));
                self.count_send();
            }
            _ => self.with_immediate(seq, wrote)?,
        }
        Ok(true)
    }

    /// Carries out the request in `self.wr`, which needs no message.
    #[inline(never)]
    fn carry_out(&mut self, queues: &Queues, seq: Seq) -> Result<(), Failed> {
        let fail = |e| Failed::memory(Some(seq), e);
        let (wr, counters) = (&mut self.wr, &queues.counters);
        // `extra` may be that of a request before.
        match (wr.op, replace(&mut wr.extra, Extra::None)) {
            (SendOp::LocalInv, _) => {
                local_invalidate(queues, wr.rkey()).map_err(fail)?;
                counters.op_invalidations.add_alone(1);
                return Ok(());
            }
            (SendOp::RegMr, Extra::Registration(reg)) => {
                register(queues, &reg).map_err(|status| Failed::new(Some(seq), status))?
            }
            (SendOp::BindMw, Extra::Binding(binding)) => {
                if !bind(queues, wr.rkey(), &binding) {
                    return Err(Failed::new(Some(seq), Status::MemOp));
                }
            }
            _ => return Err(fail(MemError::Invalid)),
        }
        counters.op_registrations.add_alone(1);
        Ok(())
    }

    /// Counts a message that takes a receive of the peer.
    #[inline]
    fn count_send(&mut self) {
        self.ops.sends += 1;
        self.send_msn = self.send_msn.next();
    }

    /// Begins the RDMA Write of the request in `self.wr`.
    #[inline]
    fn write(&mut self, seq: Seq) -> Result<(), Failed> {
        let wr = &self.wr;
        let to = TaggedOffset(wr.raddr());
        // A segment whose offset wraps must never be sent (RFC 5041 section 5.1).
        to.checked_add(wr.len)
            .ok_or(Failed::new(Some(seq), Status::RemAccess))?;
        let message = Message::Write {
            stag: Stag(wr.rkey()).carried(wr.len),
            to,
        };
        self.current.begin(message, wr.len, Some(seq));
        self.ops.writes += 1;
        Ok(())
    }

    //= 7306-6.3-7
    /// Begins the Send, or the Write, with immediate data of the request in `self.wr`. The request
    /// before was a Write if `wrote`.
    #[cold]
    fn with_immediate(&mut self, seq: Seq, wrote: bool) -> Result<(), Failed> {
        let wr = &self.wr;
        let (Extra::Immediate(data), solicited) = (&wr.extra, wr.solicited) else {
            return Err(Failed::new(Some(seq), Status::General));
        };
        let (data, msn) = (*data, self.send_msn);
        if wr.op == SendOp::SendImm {
            if !self.cfg.send_immediate {
                return Err(Failed::new(Some(seq), Status::QpOp));
            }
            let message = Message::SendImmediate {
                msn,
                solicited,
                data,
            };
            self.current.begin(message, wr.len, Some(seq));
        } else if wr.len != 0 || wrote {
            self.write(seq)?;
            self.current.then = Some((msn, solicited, data));
        } else {
            // Of no length it is the Immediate Data alone. But behind another Write the peer would
            // take that for this one.
            self.current.seq = Some(seq);
            self.current.then = Some((msn, solicited, data));
            self.current.immediate();
        }
        self.count_send();
        Ok(())
    }

    //= 5040-5.2.1-10: the Local Peer MUST use multiple RDMA Read Request Messages.
    //= 5040-5.2.1-8
    #[inline(never)]
    fn read(&mut self, queues: &Queues, seq: Seq) -> Result<(), Failed> {
        let invalidate = self.wr.op == SendOp::ReadLocalInv;
        let read = self.outstanding(queues, seq, invalidate, None)?;
        self.ops.reads += 1;
        let wr = &self.wr;
        let source = Stag(wr.rkey()).carried(read.sge.length());
        let src = (source, TaggedOffset(wr.raddr()));
        self.request_read(queues, read, src)
            .map_err(|()| Failed::new(Some(seq), Status::General))
    }

    //= 7306-5.2.1-15
    /// Begins the Atomic Request of the request in `self.wr`.
    #[inline(never)]
    fn atomic(&mut self, queues: &Queues, seq: Seq) -> Result<(), Failed> {
        let wr = &self.wr;
        let Extra::Atomic(op) = wr.extra else {
            return Err(Failed::new(Some(seq), Status::General));
        };
        if op.needs_agreement() && !self.cfg.send_immediate {
            return Err(Failed::new(Some(seq), Status::QpOp));
        }
        let req = AtomicRequest {
            id: seq,
            stag: Stag(wr.rkey()),
            to: TaggedOffset(wr.raddr()),
            op,
        };
        let read = self.outstanding(queues, seq, false, Some(req.id))?;
        self.ops.reads += 1;
        self.request(queues, read, |msn| Message::AtomicRequest { msn, req })
            .map_err(|()| Failed::new(Some(seq), Status::General))
    }

    /// What is kept of the request in `self.wr` until its answer comes; the sink is resolved.
    fn outstanding(
        &mut self,
        queues: &Queues,
        seq: Seq,
        invalidate: bool,
        atomic: Option<u32>,
    ) -> Result<OutstandingRead, Failed> {
        if !queues.sq.may_read() {
            return Err(Failed::new(Some(seq), Status::QpOp));
        }
        let sge = self.wr.sges().next().unwrap_or(LocalSge::NONE);
        let fail = |e| Failed::memory(Some(seq), e);
        let sink = match sge.length() {
            0 if !invalidate => None,
            len => {
                let (cached, range) = (&mut self.sink, (sge.addr(), len));
                let regions = &queues.dev.regions;
                let resolved = regions.resolve_cached(
                    cached,
                    sge.lkey(),
                    queues.pd.id(),
                    range,
                    Access::LOCAL_WRITE,
                );
                let resolved = resolved.map_err(fail)?;
                // Local invalidation works on fast registrations only. The domain was checked when
                // the key was resolved.
                if invalidate && !resolved.is_fast() {
                    return Err(fail(MemError::Invalid));
                }
                Some(resolved.clone())
            }
        };
        Ok(OutstandingRead {
            seq: Some(seq),
            confirms: None,
            sge,
            sink,
            invalidate,
            atomic,
            msn: Msn::FIRST,
            at_once: matches!(self.wr.op, SendOp::AtomicWrite | SendOp::Flush),
        })
    }

    /// Begins a Read of no bytes that no consumer has posted; see [`OutstandingRead::confirms`].
    /// Its source is nowhere: the offset `tells` something, or is 0.
    #[cold]
    pub(super) fn empty_read(
        &mut self,
        queues: &Queues,
        confirms: Option<Seq>,
        tells: TaggedOffset,
    ) -> Result<(), Failed> {
        let nowhere = (Stag::UNNAMED, tells);
        self.request_read(queues, OutstandingRead::empty(confirms), nowhere)
            .map_err(|()| Failed::new(None, Status::General))
    }

    //= 5041-4.3-8
    /// Begins the request of a Read.
    fn request_read(
        &mut self,
        queues: &Queues,
        read: OutstandingRead,
        (src_stag, src_to): (Stag, TaggedOffset),
    ) -> Result<(), ()> {
        let req = ReadRequest {
            sink_stag: read.stag(),
            sink_to: TaggedOffset(read.sge.addr()),
            len: read.sge.length(),
            src_stag,
            src_to,
        };
        self.request(queues, read, |msn| Message::ReadRequest { msn, req })
    }

    /// Records a request that the peer answers as outstanding, then begins its message.
    fn request(
        &mut self,
        queues: &Queues,
        mut read: OutstandingRead,
        message: impl FnOnce(Msn) -> Message,
    ) -> Result<(), ()> {
        let (seq, msn) = (read.seq, self.read_msn);
        read.msn = msn;
        queues.sq.start_read(read).map_err(drop)?;
        self.unconfirmed.asked();
        self.read_msn = msn.next();
        self.current.gather.clear();
        self.current.begin(message(msn), 0, seq);
        Ok(())
    }
}

/// Executes a request of the peer.
fn execute(request: &AtomicRequest, target: Option<ResolvedMr>) -> Result<u64, MemError> {
    let target = target.ok_or(MemError::Invalid)?;
    if request.op.needs_agreement() {
        // Rx has done what it asks for: placed what was sent before, and then checked the range of
        // a flush, or written the value.
        return Ok(0);
    }
    target.atomic(request.to.0, request.op)
}
