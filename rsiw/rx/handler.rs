// SPDX-License-Identifier: GPL-2.0

//! Places received segments in memory, and has received messages carried out.

use super::{Destination, State};
use crate::{
    abi::opcode,
    mem::{MemError, ResolvedMr},
    queue::Queues,
    wr::{Status, Told},
};
use iwarp::{
    rdmap::{Opcode, ATOMIC_LEN},
    rx::{Event, Handler, Placement, ReadExpect, Refusal, Target},
    SharedByte, Stag, TaggedOffset,
};
use trace::Stall;

/// What tracepoints call the RTR, which is an empty Send. Other messages have RDMAP's opcodes.
const TRACED_RTR: u8 = 16;

/// The protocol engine's access to memory and queues, for one chunk.
pub(super) struct QpHandler<'a> {
    pub(super) queues: &'a Queues,
    pub(super) st: &'a mut State,
}

impl Handler for QpHandler<'_> {
    #[inline]
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        kext::crc32c(crc, data)
    }

    #[inline]
    fn crc32c_shared(&mut self, crc: u32, data: &[SharedByte]) -> u32 {
        kext::crc32c_shared(crc, data)
    }

    #[inline(always)]
    fn load<const N: usize>(&mut self, bytes: &[SharedByte; N]) -> [u8; N] {
        kext::load::load(bytes)
    }

    fn copy(&mut self, to: &[SharedByte], from: &[SharedByte]) {
        kext::copy::shared(to, from);
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        let read = self.queues.sq.take_read_head(None)?;
        let expect = ReadExpect {
            stag: read.stag(),
            to: TaggedOffset(read.sge.addr()),
            len: read.sge.length(),
        };
        self.st.read = Some(read);
        Some(expect)
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        if !p.last {
            self.st.access.hold();
        }
        trace::fpdu_rx(|| {
            let (opcode, stag, offset) = match p.target {
                Target::Recv { offset } => (Opcode::Send as u8, 0, offset.into()),
                Target::Immediate => (Opcode::Immediate as u8, 0, 0),
                Target::Write { stag, to } => (Opcode::Write as u8, stag.0, to.0),
                Target::ReadResponse { offset } => (Opcode::ReadResponse as u8, 0, offset.into()),
            };
            let (dev, qpn) = (self.queues.dev.name(), self.queues.number());
            (dev, qpn, opcode, stag, offset, p.len, p.last)
        });
        let offset = match p.target {
            Target::Recv { offset } => offset,
            Target::Write { stag, to } => return self.begin_write(stag, to, p),
            Target::ReadResponse { offset } => return self.begin_read_response(offset, p),
            Target::Immediate if !self.queues.pd.takes_immediates() => {
                return Err(Refusal::Unexpected);
            }
            // All that has to be found is a receive; its memory takes nothing.
            Target::Immediate => 0,
        };
        self.begin_recv(offset, p)
    }

    //= 5041-5.2-4
    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        let queues = self.queues;
        match &mut self.st.destination {
            Destination::Recv { offset } => {
                let recv = self.st.recv.active().ok_or(Refusal::Local)?;
                let (access, regions) = (&mut self.st.access, &queues.dev.regions);
                let pd = queues.rq.pd();
                let done = recv.scatter.write(access, regions, pd, *offset, data);
                if let Err(e) = done {
                    // The consumer's own mistake: its receive fails with the reason, and the peer
                    // is not to blame.
                    recv.status = e.into();
                    return Err(Refusal::Local);
                }
                *offset += data.len() as u32;
            }
            Destination::Write { addr, end } => {
                let resolved = self.st.write.as_ref().ok_or(Refusal::Local)?;
                let next = addr.wrapping_add(data.len() as u64);
                resolved
                    .write(&mut self.st.access, *addr, data, *end == Some(next))
                    .map_err(MemError::refusal)?;
                *addr = next;
            }
            Destination::Read { offset } => {
                let read = self.st.read.as_ref().ok_or(Refusal::Local)?;
                let resolved = read.sink.as_ref().ok_or(Refusal::Local)?;
                let access = &mut self.st.access;
                if let Err(e) = resolved.write_sge(access, &read.sge, *offset, data) {
                    // The consumer has taken away the sink of its own Read; the peer is not to
                    // blame.
                    queues.note_failure(read.seq, e.into());
                    return Err(Refusal::Local);
                }
                *offset = offset.wrapping_add(data.len() as u32);
            }
            Destination::None => return Err(Refusal::Local),
        }
        Ok(crc.map_or(0, |crc| kext::crc32c_shared(crc, data)))
    }

    #[inline]
    fn place_next(&mut self, data: &[SharedByte]) -> bool {
        // CAST: A segment is no longer than `MAX_ULPDU`.
        let (queues, len) = (self.queues, data.len() as u32);
        let State {
            destination,
            access,
            recv,
            write,
            write_needs,
            read,
            ..
        } = &mut *self.st;
        access.hold();
        let pd = queues.pd.id();
        // Each arm as tracepoints tell the segment: opcode, STag and offset.
        let (opcode, stag, at, placed) = match destination {
            Destination::Write { addr, end: None } => {
                let resolved = write.as_ref().filter(|mr| mr.is_for(*write_needs));
                let (key, at) = (resolved.map_or(0, ResolvedMr::key), *addr);
                let Some(resolved) = resolved.filter(|mr| mr.writes_whole(pd, at, len)) else {
                    return false;
                };
                *addr = at.wrapping_add(len.into());
                let placed = resolved.write(access, at, data, false).is_ok();
                (Opcode::Write, key, at, placed)
            }
            Destination::Read { offset } => {
                let Some((sge, sink)) =
                    read.as_ref().and_then(|r| Some((&r.sge, r.sink.as_ref()?)))
                else {
                    return false;
                };
                let at = *offset;
                if !sink.writes_whole(pd, sge.addr().wrapping_add(at.into()), len) {
                    return false;
                }
                *offset = at.wrapping_add(len);
                let placed = sink.write_sge(access, sge, at, data).is_ok();
                (Opcode::ReadResponse, 0, at.into(), placed)
            }
            Destination::Recv { offset } => {
                let (at, scatter) = (*offset, &mut recv.scatter);
                let end = at.checked_add(len);
                let Some(end) = end.filter(|&end| end <= scatter.len()) else {
                    return false;
                };
                if !recv.active || recv.status != Status::Flush {
                    return false;
                }
                *offset = end;
                let (regions, pd) = (&queues.dev.regions, queues.rq.pd());
                let placed = scatter.write(access, regions, pd, at, data).is_ok();
                (Opcode::Send, 0, at.into(), placed)
            }
            Destination::Write { .. } | Destination::None => return false,
        };
        if placed {
            trace::fpdu_rx(|| {
                let (dev, qpn) = (queues.dev.name(), queues.number());
                (dev, qpn, opcode as u8, stag, at, len, false)
            });
        }
        placed
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        self.started();
        Ok(())
    }

    //= 5040-5.1-3, 5040-5.5-3, 5040-5.5-8
    fn deliver(&mut self, event: Event) -> Result<(), Refusal> {
        self.started();
        trace::message_rx(|| {
            let (opcode, len) = match &event {
                Event::Recv { len, .. } => (Opcode::Send as u8, *len),
                Event::RecvImmediate { len, .. } => (Opcode::SendImmediate as u8, *len),
                Event::Write { len } => (Opcode::Write as u8, *len),
                Event::ReadRequest(request) => (Opcode::ReadRequest as u8, request.len),
                Event::ReadResponse { len } => (Opcode::ReadResponse as u8, *len),
                Event::Immediate { .. } => (Opcode::Immediate as u8, 0),
                Event::AtomicRequest(_) => (Opcode::AtomicRequest as u8, ATOMIC_LEN),
                Event::AtomicResponse(_) => (Opcode::AtomicResponse as u8, ATOMIC_LEN),
                Event::Rtr => (TRACED_RTR, 0),
                Event::Terminate(_) => (Opcode::Terminate as u8, 0),
            };
            (self.queues.dev.name(), self.queues.number(), opcode, len)
        });
        let counters = &self.queues.counters;
        counters.rx_messages.add_alone(1);
        let delivered = match event {
            Event::Recv {
                len,
                solicited,
                invalidate,
            } => {
                counters.rx_op_sends.add_alone(1);
                self.received(len, solicited, invalidate)
            }
            Event::RecvImmediate {
                len,
                solicited,
                data,
            } => {
                counters.rx_op_sends.add_alone(1);
                self.complete_recv(opcode::RECEIVE, len, Told::immediate(data), solicited)
            }
            Event::Immediate { data, solicited } => {
                counters.rx_op_sends.add_alone(1);
                self.immediate(data.to_verbs(), solicited)
            }
            Event::Write { len } => {
                counters.rx_op_writes.add_alone(1);
                self.st.written = len;
                Ok(())
            }
            Event::ReadRequest(request) => {
                counters.rx_op_reads.add_alone(1);
                self.read_request(request)
            }
            Event::AtomicRequest(request) => {
                counters.rx_op_reads.add_alone(1);
                self.atomic_request(request)
            }
            Event::AtomicResponse(response) => {
                counters.rx_op_read_responses.add_alone(1);
                self.atomic_response(response)
            }
            Event::ReadResponse { .. } => {
                counters.rx_op_read_responses.add_alone(1);
                self.read_done();
                Ok(())
            }
            Event::Rtr => Ok(()),
            Event::Terminate(t) => {
                self.st.terminated = Some(t);
                Ok(())
            }
        };
        // A lost completion must be the last: end the stream.
        if self.st.lost() {
            return Err(Refusal::Local);
        }
        delivered
    }
}

impl QpHandler<'_> {
    //= 5040-5.3-3, 5041-7.1-1b, 5041-7.1-1d
    #[inline]
    fn begin_recv(&mut self, offset: u32, p: &Placement) -> Result<(), Refusal> {
        if p.first {
            let (rq, recv) = (&self.queues.rq, &mut self.st.recv);
            recv.active = rq.take(&mut recv.rqe);
            if !recv.active {
                return Err(self.no_receive());
            }
            self.st.late.end();
            self.queues.receives.add_alone(1);
            recv.status = if recv.scatter.set_receive(&recv.rqe, rq.max_sge()) {
                Status::Flush
            } else {
                Status::QpOp
            };
        }
        let recv = self.st.recv.active().ok_or(Refusal::Local)?;
        if recv.status != Status::Flush {
            return Err(Refusal::Local);
        }
        if offset
            .checked_add(p.len)
            .is_none_or(|end| end > recv.scatter.len())
        {
            recv.status = Status::LocLen;
            return Err(Refusal::TooLong);
        }
        self.st.destination = Destination::Recv { offset };
        Ok(())
    }

    /// A Send finds no receive. It waits if its consumer may post late, unless it has waited too
    /// long.
    #[cold]
    fn no_receive(&mut self) -> Refusal {
        let counters = &self.queues.counters;
        let waited = self.st.late.waits();
        // A consumer that has disconnected posts no receives any more; a library may still move
        // those that it has.
        let most = if self.queues.is_closing() {
            self.queues.rq.least_wait_ms()
        } else {
            self.st.most_wait(self.queues)
        };
        let (refusal, begins) = self.st.late.refuse(most, kext::jiffies_ms());
        if begins {
            counters.rx_stalls.add_alone(1);
            self.queues.trace_stall(Stall::NoReceive);
        } else if waited && refusal == Refusal::NoBuffer {
            counters.rx_stall_timeouts.add_alone(1);
        }
        refusal
    }

    //= 5041-4.2-6, 5041-7.1-2a, 5041-7.1-2b, 5041-7.1-2c, 5041-7.1-2d
    fn begin_write(&mut self, stag: Stag, to: TaggedOffset, p: &Placement) -> Result<(), Refusal> {
        let (queues, pd) = (self.queues, self.queues.pd.id());
        let needs = self.st.write_needs;
        let (cached, range) = (&mut self.st.write, (to.0, p.len));
        queues
            .dev
            .regions
            .resolve_cached_for(|| queues.number(), cached, stag.0, pd, range, needs)
            .map_err(MemError::refusal)?;
        self.st.destination = Destination::Write {
            addr: to.0,
            end: p.last.then(|| to.0.wrapping_add(p.len.into())),
        };
        Ok(())
    }

    fn begin_read_response(&mut self, offset: u32, p: &Placement) -> Result<(), Refusal> {
        let read = self.st.read.as_ref().ok_or(Refusal::Local)?;
        let resolved = read.sink.as_ref().ok_or(Refusal::Local)?;
        let addr = read.sge.addr().wrapping_add(u64::from(offset));
        // The Read's key was checked when tx took the request. If it is not valid any more, the
        // consumer has broken the rule, not the peer.
        if let Err(e) = resolved.check(self.queues.pd.id(), addr, p.len) {
            self.queues.note_failure(read.seq, e.into());
            return Err(Refusal::Local);
        }
        self.st.destination = Destination::Read { offset };
        Ok(())
    }
}
