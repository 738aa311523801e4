// SPDX-License-Identifier: GPL-2.0

//! Chooses the next message, and makes messages of requests.

use super::{Failed, Tx};
use crate::{
    mem::{gather::Gather, Access, Binding, MemError, ResolvedMr},
    queue::{
        reads::{Asked, InboundRead, OutstandingRead},
        sq::{Pull, ReadsBefore, Seq},
        Queues,
    },
    wr::{Extra, Registration, SendOp, Status},
};
use core::mem::replace;
use iwarp::{
    rdmap::{AtomicRequest, AtomicResponse, Immediate},
    tx::{Message, Segmenter},
    Msn, ReadRequest, Stag, TaggedOffset, Terminate,
};
use kernel::prelude::*;
use rdma::LocalSge;
use trace::Stall;

/// The message under way. A queue pair has one of these, which is used for one message after the
/// other in place.
pub(super) struct Current {
    /// There is a message under way.
    pub(super) active: bool,
    pub(super) segmenter: Segmenter,
    pub(super) gather: Gather,
    /// The request that the message carries out; `None` for Read responses, the RTR and a
    /// Terminate.
    pub(super) seq: Option<Seq>,
    /// The request of the peer that the message answers, and its number.
    pub(super) answers: Option<(Msn, Asked)>,
    /// Immediate Data that follow, for the same request: their number, whether they ask for an
    /// Event, and the data.
    then: Option<(Msn, bool, [u8; 4])>,
}

impl Current {
    /// Makes one without a message; the messages to come have up to `sges` pieces each. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(super) fn none(sges: u32) -> Result<Self> {
        let nothing = Message::Write {
            stag: Stag(0),
            to: TaggedOffset(0),
        };
        Ok(Self {
            active: false,
            segmenter: Segmenter::new(nothing, 0),
            gather: Gather::new(sges)?,
            seq: None,
            answers: None,
            then: None,
        })
    }

    /// Begins a message whose payload is in `gather` already.
    #[inline(always)]
    fn begin(&mut self, message: Message, len: u32, seq: Option<Seq>) {
        self.segmenter = Segmenter::new(message, len);
        self.seq = seq;
        self.active = true;
    }

    /// Ends the message, and releases its payload.
    pub(super) fn end(&mut self) {
        self.active = false;
        self.answers = None;
        self.then = None;
        self.gather.clear();
    }

    /// Begins the message that follows the one that was sent, if there is one.
    #[inline]
    pub(super) fn go_on(&mut self) -> bool {
        let goes_on = self.then.is_some();
        if goes_on {
            self.immediate();
        }
        goes_on
    }

    #[cold]
    fn immediate(&mut self) {
        if let Some((msn, solicited, data)) = self.then.take() {
            let message = Message::Immediate {
                msn,
                solicited,
                data: Immediate::of_verbs(data),
            };
            self.gather.clear();
            self.begin(message, 0, self.seq);
        }
    }

    /// Begins a Terminate.
    pub(super) fn terminate(&mut self, term: Terminate) {
        self.end();
        self.begin(Message::Terminate { term }, 0, None);
    }

    /// Begins the answer to a Read of the peer.
    fn read_response(&mut self, msn: Msn, r: ReadRequest, source: Option<ResolvedMr>) {
        self.gather.set_resolved(source, r.src_to.0, r.len);
        let message = Message::ReadResponse {
            stag: r.sink_stag,
            to: r.sink_to,
        };
        self.begin(message, r.len, None);
        self.answers = Some((msn, Asked::Read(r)));
    }

    /// The failure if the payload's memory cannot be read. For a Read of the peer it is a remote
    /// protection fault: the region was there when the request arrived, and was taken away since.
    pub(super) fn failed(&self, e: MemError) -> Failed {
        let mut failed = Failed::memory(self.seq, e);
        if let Some((msn, Asked::Read(req))) = &self.answers {
            let done = req.len - self.segmenter.remaining();
            failed.terminate = Some(Terminate::for_read_request(e.code(), *msn, req, done));
        }
        failed
    }
}

/// Where the messages of a batch come from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Requests of this end and Reads of the peer.
    All,
    /// Short Reads of the peer only.
    ShortReads,
}

impl Tx {
    /// Makes the next message of `source` the current one; `false` if there is none.
    pub(super) fn next_message(&mut self, queues: &Queues, source: Source) -> Result<bool, Failed> {
        match source {
            Source::All => self.next_of_all(queues),
            Source::ShortReads => self.respond(queues.inbound.pop_short()),
        }
    }

    /// Read responses and requests take turns, so that neither starves the other. Requests that
    /// need no message (local invalidation, fast registration) are carried out on the way.
    fn next_of_all(&mut self, queues: &Queues) -> Result<bool, Failed> {
        if let Some(rtr) = self.cfg.rtr.take() {
            self.rtr(queues, rtr)?;
            return Ok(true);
        }
        self.response_turn = !self.response_turn;
        if self.response_turn && self.next_response(queues)? {
            return Ok(true);
        }
        self.more = true;
        // Bounds the loop. The slots bound it, too: requests without a message free none until the
        // batch is sent.
        for _ in 0..queues.sq.size() {
            let waited = self.blocked.is_some();
            let seq = match self.blocked.take() {
                Some(seq) => seq,
                None => match queues.sq.pull(&mut self.wr, &mut self.rest) {
                    Pull::Wr(seq) => seq,
                    Pull::Bad(seq, status) => return Err(Failed::new(Some(seq), status)),
                    Pull::Empty => {
                        self.more = false;
                        break;
                    }
                    // Requests in the batch may free slots when they are sent.
                    Pull::Full => break,
                },
            };
            if let Err(why) = queues.sq.may_start(&self.wr) {
                // Each request counts once, however often tx looks at it.
                if !waited {
                    let (stalls, cause) = match why {
                        ReadsBefore::Fence => (&queues.counters.tx_stalls_fence, Stall::Fence),
                        ReadsBefore::Ord => (&queues.counters.tx_stalls_ord, Stall::Ord),
                    };
                    stalls.add_alone(1);
                    queues.trace_stall(cause);
                }
                self.blocked = Some(seq);
                self.more = false;
                break;
            }
            if self.start(queues, seq)? {
                return Ok(true);
            }
            self.built = Some(seq.wrapping_add(1));
        }
        self.next_response(queues)
    }

    #[inline]
    fn next_response(&mut self, queues: &Queues) -> Result<bool, Failed> {
        // Most often there is none.
        if queues.inbound.is_empty() {
            return Ok(false);
        }
        self.respond(queues.inbound.pop())
    }

    #[inline(never)]
    fn respond(&mut self, asked: Option<InboundRead>) -> Result<bool, Failed> {
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

    /// Begins the answer to an Atomic Request of the peer, which was executed.
    fn atomic_response(&mut self, id: u32, value: u64) {
        let msn = self.atomic_msn;
        self.atomic_msn = msn.next();
        let response = AtomicResponse { id, value };
        self.current.gather.clear();
        self.current
            .begin(Message::AtomicResponse { msn, response }, 0, None);
    }

    /// Begins the message of the request in `self.wr`. If the request needs none, carries it out
    /// and returns `false`.
    fn start(&mut self, queues: &Queues, seq: Seq) -> Result<bool, Failed> {
        let fail = |e| Failed::memory(Some(seq), e);
        let wr = &mut self.wr;
        let wrote = replace(&mut self.wrote, wr.op == SendOp::Write);
        match wr.op {
            SendOp::Send | SendOp::SendInv | SendOp::SendImm | SendOp::Write | SendOp::WriteImm => {
            }
            SendOp::FetchAdd | SendOp::CmpSwap => return self.atomic(queues, seq).map(|()| true),
            SendOp::Read | SendOp::ReadLocalInv => return self.read(queues, seq).map(|()| true),
            SendOp::LocalInv => {
                local_invalidate(queues, wr.rkey()).map_err(fail)?;
                queues.counters.op_invalidations.add_alone(1);
                self.wrote = wrote;
                return Ok(false);
            }
            SendOp::RegMr => {
                let Extra::Registration(reg) = replace(&mut wr.extra, Extra::None) else {
                    return Err(fail(MemError::Invalid));
                };
                register(queues, &reg).map_err(|status| Failed::new(Some(seq), status))?;
                queues.counters.op_registrations.add_alone(1);
                self.wrote = wrote;
                return Ok(false);
            }
            SendOp::BindMw => {
                let Extra::Binding(binding) = &wr.extra else {
                    return Err(fail(MemError::Invalid));
                };
                if !bind(queues, wr.rkey(), binding) {
                    return Err(Failed::new(Some(seq), Status::MemOp));
                }
                queues.counters.op_registrations.add_alone(1);
                self.wrote = wrote;
                return Ok(false);
            }
        }
        let gather = &mut self.current.gather;
        if wr.inline {
            gather.set_inline(wr.inline_data());
        } else {
            let sges = Iterator::chain(wr.sges(), self.rest.iter().map(LocalSge::from));
            gather
                .set_sges(&queues.dev.regions, queues.pd.id(), sges)
                .map_err(fail)?;
        }
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

    /// Begins the Atomic Request of the request in `self.wr`.
    fn atomic(&mut self, queues: &Queues, seq: Seq) -> Result<(), Failed> {
        let wr = &self.wr;
        let Extra::Atomic(op) = wr.extra else {
            return Err(Failed::new(Some(seq), Status::General));
        };
        let req = AtomicRequest {
            id: seq,
            stag: Stag(wr.rkey()),
            to: TaggedOffset(wr.raddr()),
            op,
        };
        let read = self.outstanding(queues, seq, false, Some(req.id))?;
        let started = queues.sq.start_read(read);
        started.map_err(|_| Failed::new(Some(seq), Status::General))?;
        self.ops.reads += 1;
        let msn = self.read_msn;
        self.read_msn = msn.next();
        self.current.gather.clear();
        self.current
            .begin(Message::AtomicRequest { msn, req }, 0, Some(seq));
        Ok(())
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
            sge,
            sink,
            invalidate,
            atomic,
        })
    }

    /// Records a Read as outstanding, then begins its request.
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
        let seq = read.seq;
        queues.sq.start_read(read).map_err(drop)?;
        let msn = self.read_msn;
        self.read_msn = msn.next();
        self.current.gather.clear();
        self.current
            .begin(Message::ReadRequest { msn, req }, 0, seq);
        Ok(())
    }

    /// Begins the initiator's ready-to-receive indication (RFC 6581 section 9).
    fn rtr(&mut self, queues: &Queues, rtr: iwarp::mpa::Rtr) -> Result<(), Failed> {
        let (stag, to) = (Stag::UNNAMED, TaggedOffset(0));
        let message = match rtr {
            iwarp::mpa::Rtr::Send => {
                let msn = self.send_msn;
                self.send_msn = msn.next();
                Message::Send {
                    msn,
                    solicited: false,
                    invalidate: None,
                }
            }
            iwarp::mpa::Rtr::Write => Message::Write { stag, to },
            iwarp::mpa::Rtr::Read => {
                let read = OutstandingRead {
                    seq: None,
                    sge: LocalSge::NONE,
                    sink: None,
                    invalidate: false,
                    atomic: None,
                };
                return self
                    .request_read(queues, read, (stag, to))
                    .map_err(|()| Failed::new(None, Status::General));
            }
        };
        self.current.begin(message, 0, None);
        Ok(())
    }
}

/// Executes a request of the peer.
fn execute(request: &AtomicRequest, target: Option<ResolvedMr>) -> Result<u64, MemError> {
    let target = target.ok_or(MemError::Invalid)?;
    target.atomic(request.to.0, request.op)
}

/// Takes the STag of a fast registration, or of a window, out of use.
fn local_invalidate(queues: &Queues, key: u32) -> Result<(), MemError> {
    let region = queues.dev.regions.find(key).ok_or(MemError::Invalid)?;
    if region.pd() != queues.pd.id() {
        return Err(MemError::Domain);
    }
    if !region.may_invalidate(queues.number()) {
        return Err(MemError::Invalid);
    }
    // It is no error if the peer has invalidated it first (Send with Invalidate).
    region.invalidate(key);
    Ok(())
}

/// Binds the window that `stag` names, with the key that it is to have.
#[cold]
fn bind(queues: &Queues, stag: u32, to: &Binding) -> bool {
    let regions = &queues.dev.regions;
    let Some((window, region)) = regions.table().get(stag >> 8).zip(regions.find(to.key)) else {
        return false;
    };
    window.pd() == queues.pd.id() && window.bind(stag, region, to, queues.number())
}

/// Puts a fast registration's STag, with its new key, into use.
fn register(queues: &Queues, reg: &Registration) -> Result<(), Status> {
    if reg.region.pd() != queues.pd.id() {
        return Err(MemError::Domain.into());
    }
    if reg.region.stag() >> 8 != reg.key >> 8 || !reg.region.is_fast() {
        return Err(MemError::Invalid.into());
    }
    match reg
        .region
        .register(reg.key, reg.access, reg.iova, queues.number())
    {
        true => Ok(()),
        false => Err(Status::MemOp),
    }
}
