// SPDX-License-Identifier: GPL-2.0

//! A peer: a receiver and a framer, with memory and queues on top.

use std::collections::{BTreeMap, VecDeque};

use iwarp::rx::{Event, Handler, Placement, ReadExpect, Receiver, Refusal, RxConfig, Target};
use iwarp::tx::{Framer, Message, Segmenter};
use iwarp::{Msn, Octet, ReadRequest, Stag, TaggedOffset, Terminate};

use crate::guard::Guard;
use crate::stream::Tape;
use crate::{bytes, crc32c, octets, Entropy};

/// A memory region with an STag.
#[derive(Clone, Debug)]
pub struct Region {
    /// Tagged Offset of the first octet.
    pub base: u64,
    /// Contents.
    pub data: Vec<u8>,
    /// The peer may read.
    pub read: bool,
    /// The peer may write.
    pub write: bool,
    /// The peer may invalidate.
    pub invalidate: bool,
    /// The STag is valid.
    pub valid: bool,
}

impl Region {
    /// The index range in `data` of `len` octets at `to`.
    fn range(&self, to: u64, len: u32) -> Result<core::ops::Range<usize>, Refusal> {
        let from = to.checked_sub(self.base).ok_or(Refusal::Bounds)?;
        let end = from.checked_add(u64::from(len)).ok_or(Refusal::Wrap)?;
        if end > self.data.len() as u64 {
            return Err(Refusal::Bounds);
        }
        Ok(from as usize..end as usize)
    }
}

/// A Send that has been received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message.
    pub data: Vec<u8>,
    /// With Solicited Event.
    pub solicited: bool,
    /// STag that was invalidated.
    pub invalidate: Option<u32>,
}

/// The destination of the current segment's payload.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    Recv,
    Memory { stag: u32, at: usize },
}

/// Memory and queues of a peer.
#[derive(Debug)]
pub struct Node {
    /// Registered memory.
    pub regions: BTreeMap<u32, Region>,
    /// Sizes of posted receive buffers.
    pub rq: VecDeque<usize>,
    /// Messages received, in order.
    pub received: Vec<Received>,
    /// RDMA Reads without response.
    pub orq: VecDeque<ReadExpect>,
    /// Lengths of RDMA Reads completed, in order.
    pub reads: Vec<u32>,
    /// The peer's Read Requests without response.
    pub irq: VecDeque<ReadRequest>,
    /// Capacity of `irq`.
    pub ird: usize,
    /// RDMA Writes completed by the peer.
    pub writes: u32,
    /// The peer's Terminate.
    pub terminated: Option<Terminate>,
    /// The zero-length Send as RTR has arrived.
    pub rtr: bool,
    /// The receive buffer being filled and its size.
    receiving: Option<(Vec<u8>, usize)>,
    cursor: Option<Cursor>,
    /// Where the segment before has ended.
    next: Option<Cursor>,
}

impl Node {
    /// A node with nothing registered or posted.
    pub fn new(ird: usize) -> Self {
        Self {
            regions: BTreeMap::new(),
            rq: VecDeque::new(),
            received: Vec::new(),
            orq: VecDeque::new(),
            reads: Vec::new(),
            irq: VecDeque::new(),
            ird,
            writes: 0,
            terminated: None,
            rtr: false,
            receiving: None,
            cursor: None,
            next: None,
        }
    }

    fn valid(&self, stag: u32) -> Result<&Region, Refusal> {
        let region = self.regions.get(&stag).ok_or(Refusal::InvalidStag)?;
        region.valid.then_some(region).ok_or(Refusal::InvalidStag)
    }

    fn check_read(&self, req: &ReadRequest) -> Result<(), Refusal> {
        if self.irq.len() >= self.ird {
            return Err(Refusal::ReadQueueFull);
        }
        if req.len != 0 {
            let region = self.valid(req.src_stag.0)?;
            if !region.read {
                return Err(Refusal::Access);
            }
            region.range(req.src_to.0, req.len)?;
        }
        Ok(())
    }
}

impl Handler for Node {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        crc32c(crc, data)
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        self.orq.front().copied()
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        self.cursor = Some(match p.target {
            Target::Immediate => {
                return self.rq.pop_front().map(drop).ok_or(Refusal::NoBuffer);
            }
            Target::Recv { offset } => {
                if p.first {
                    assert!(self.receiving.is_none(), "first segment within message");
                    let size = self.rq.pop_front().ok_or(Refusal::NoBuffer)?;
                    self.receiving = Some((Vec::new(), size));
                }
                let (data, size) = self.receiving.as_ref().expect("first segment");
                assert_eq!(data.len(), offset as usize);
                if data.len() + p.len as usize > *size {
                    return Err(Refusal::TooLong);
                }
                Cursor::Recv
            }
            Target::Write { stag, to } => {
                let region = self.valid(stag.0)?;
                if !region.write {
                    return Err(Refusal::Access);
                }
                let at = region.range(to.0, p.len)?.start;
                Cursor::Memory { stag: stag.0, at }
            }
            Target::ReadResponse { offset } => {
                let read = self.orq.front().expect("response without read");
                let region = self.valid(read.stag.0)?;
                let to = read.to.0 + u64::from(offset);
                let at = region.range(to, p.len)?.start;
                Cursor::Memory {
                    stag: read.stag.0,
                    at,
                }
            }
        });
        Ok(())
    }

    fn place(&mut self, data: &[Octet], crc: Option<u32>) -> Result<u32, Refusal> {
        match self.cursor.as_mut().expect("no segment") {
            Cursor::Recv => {
                let (all, _) = self.receiving.as_mut().expect("no buffer");
                all.extend(bytes(data));
            }
            Cursor::Memory { stag, at } => {
                let region = self.regions.get_mut(stag).expect("region");
                region.data[*at..*at + data.len()].copy_from_slice(&bytes(data));
                *at += data.len();
            }
        }
        Ok(crc.map_or(0, |crc| self.crc32c_octets(crc, data)))
    }

    fn place_next(&mut self, data: &[Octet]) -> bool {
        match self.next.as_mut().expect("no segment before") {
            Cursor::Recv => {
                let (all, size) = self.receiving.as_mut().expect("no buffer");
                if all.len() + data.len() > *size {
                    return false;
                }
                all.extend(bytes(data));
            }
            Cursor::Memory { stag, at } => {
                let region = self.regions.get_mut(stag).expect("region");
                let to = region.data.get_mut(*at..*at + data.len());
                let Some(to) = to.filter(|_| region.valid) else {
                    return false;
                };
                to.copy_from_slice(&bytes(data));
                *at += data.len();
            }
        }
        true
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        self.next = self.cursor.take();
        Ok(())
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        match e {
            Event::Recv {
                len,
                solicited,
                invalidate,
            } => {
                if let Some(stag) = invalidate {
                    let region = self.regions.get_mut(&stag.0).ok_or(Refusal::InvalidStag)?;
                    if !region.valid || !region.invalidate {
                        return Err(Refusal::CannotInvalidate);
                    }
                    region.valid = false;
                }
                let (data, _) = self.receiving.take().expect("no buffer");
                assert_eq!(data.len(), len as usize);
                self.received.push(Received {
                    data,
                    solicited,
                    invalidate: invalidate.map(|s| s.0),
                });
            }
            Event::Immediate { data, solicited } => self.received.push(Received {
                data: data.0.to_vec(),
                solicited,
                invalidate: None,
            }),
            Event::AtomicRequest(_) | Event::AtomicResponse(_) | Event::RecvImmediate { .. } => {
                return Err(Refusal::Unexpected)
            }
            Event::Write { .. } => self.writes += 1,
            Event::ReadRequest(req) => {
                self.check_read(&req)?;
                self.irq.push_back(req);
            }
            Event::ReadResponse { len } => {
                let read = self.orq.pop_front().expect("response without read");
                assert_eq!(read.len, len);
                self.reads.push(len);
            }
            Event::Rtr => self.rtr = true,
            Event::Terminate(t) => self.terminated = Some(t),
        }
        Ok(())
    }
}

/// An operation of the send queue.
#[derive(Clone, Debug)]
pub enum Op {
    /// Send of any kind.
    Send {
        /// The message.
        data: Vec<u8>,
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate.
        invalidate: Option<u32>,
    },
    /// RDMA Write.
    Write {
        /// Octets to write.
        data: Vec<u8>,
        /// Buffer of the peer.
        stag: u32,
        /// Tagged Offset of the first octet.
        to: u64,
    },
    /// RDMA Read.
    Read(ReadRequest),
}

/// A message that is being sent.
#[derive(Debug)]
struct Active {
    segmenter: Segmenter,
    payload: Vec<u8>,
    tagged: bool,
}

impl Active {
    fn new(message: Message, payload: Vec<u8>) -> Self {
        let tagged = matches!(
            message,
            Message::Write { .. } | Message::ReadResponse { .. }
        );
        Self {
            segmenter: Segmenter::new(message, payload.len() as u32),
            payload,
            tagged,
        }
    }
}

/// One end of a connection in Full Operation.
#[derive(Debug)]
pub struct Peer {
    /// Memory and queues.
    pub node: Guard<Node>,
    /// Operations not yet begun.
    pub sq: VecDeque<Op>,
    /// Number of operations begun.
    pub begun: usize,
    /// Terminate to be sent, or sent.
    pub fault: Option<Terminate>,
    /// Nothing more is sent.
    pub quiet: bool,
    /// A fault was found.
    faulted: bool,
    rx: Receiver,
    framer: Framer,
    ord: usize,
    send_msn: Msn,
    read_msn: Msn,
    /// The operation under way.
    current: Option<Active>,
    /// The Read Response under way.
    response: Option<Active>,
}

impl Peer {
    /// A peer with these depths.
    pub fn new(crc: bool, ird: usize, ord: usize) -> Self {
        Self {
            node: Guard::new(Node::new(ird), crc),
            sq: VecDeque::new(),
            begun: 0,
            fault: None,
            quiet: false,
            faulted: false,
            rx: Receiver::new(RxConfig { crc }),
            framer: Framer::new(crc, false),
            ord,
            send_msn: Msn::FIRST,
            read_msn: Msn::FIRST,
            current: None,
            response: None,
        }
    }

    /// Whether the receiver has found a fault.
    pub fn is_faulted(&self) -> bool {
        self.faulted
    }

    /// Number of calls of the handler.
    pub fn calls(&self) -> usize {
        self.node.calls.len()
    }

    /// Memory and queues.
    pub fn node(&mut self) -> &mut Node {
        &mut self.node.inner
    }

    /// Whether the received stream is in the middle of a message.
    pub fn mid_message(&self) -> bool {
        self.rx.mid_message()
    }

    /// Takes octets from the wire.
    pub fn receive(&mut self, chunk: &[u8]) {
        if let Err(fault) = self.rx.receive(&octets(chunk), &mut self.node) {
            if self.fault.is_none() && !self.quiet {
                self.fault = self.rx.terminate_for(&fault);
                assert_eq!(self.fault.is_some(), fault.term().is_some(), "{fault}");
                // A fault without a Terminate to send ends the connection.
                self.quiet = self.fault.is_none();
                self.faulted = true;
            }
        }
    }

    /// Sends one FPDU of any message that may be sent now; `false` if there is none.
    pub fn transmit(&mut self, e: &mut Entropy, mulpdu: u16, wire: &mut VecDeque<u8>) -> bool {
        if self.quiet || self.node.inner.terminated.is_some() {
            return false;
        }
        if let Some(term) = self.fault {
            // RFC 5040 s5.4: "After sending a Terminate Message on an RDMAP Stream, the Local Peer
            // MUST NOT send any more Messages".
            self.quiet = true;
            let mut active = Active::new(Message::Terminate { term }, Vec::new());
            self.frame(&mut active, mulpdu, wire);
            return true;
        }
        let first = e.flag();
        for response in [first, !first] {
            let lane = if response {
                self.next_response()
            } else {
                self.next_operation()
            };
            if let Some(mut active) = lane {
                self.frame(&mut active, mulpdu, wire);
                if !active.segmenter.done() {
                    let lane = if response {
                        &mut self.response
                    } else {
                        &mut self.current
                    };
                    *lane = Some(active);
                }
                return true;
            }
        }
        false
    }

    fn frame(&mut self, active: &mut Active, mulpdu: u16, wire: &mut VecDeque<u8>) {
        let segment = active.segmenter.next(mulpdu).expect("segment");
        let mut tape = Tape {
            out: Vec::new(),
            payload: &active.payload,
            at: segment.payload_offset() as usize,
        };
        let Ok(()) = self.framer.write(&segment, &mut tape);
        wire.extend(tape.out);
    }

    /// The operation to continue or to begin. A tagged operation must not begin in the middle of a
    /// response.
    fn next_operation(&mut self) -> Option<Active> {
        if let Some(active) = self.current.take() {
            return Some(active);
        }
        let within_response = self.response.is_some();
        match self.sq.front()? {
            Op::Write { .. } if within_response => return None,
            Op::Read(_) if self.node.inner.orq.len() >= self.ord => return None,
            _ => {}
        }
        self.begun += 1;
        Some(match self.sq.pop_front()? {
            Op::Send {
                data,
                solicited,
                invalidate,
            } => {
                let msn = self.send_msn;
                self.send_msn = msn.next();
                let message = Message::Send {
                    msn,
                    solicited,
                    invalidate: invalidate.map(Stag),
                };
                Active::new(message, data)
            }
            Op::Write { data, stag, to } => {
                let message = Message::Write {
                    stag: Stag(stag),
                    to: TaggedOffset(to),
                };
                Active::new(message, data)
            }
            Op::Read(req) => {
                let msn = self.read_msn;
                self.read_msn = msn.next();
                self.node.inner.orq.push_back(ReadExpect {
                    stag: req.sink_stag,
                    to: req.sink_to,
                    len: req.len,
                });
                Active::new(Message::ReadRequest { msn, req }, Vec::new())
            }
        })
    }

    /// The response to continue or to begin. No response must begin in the middle of a tagged
    /// operation.
    fn next_response(&mut self) -> Option<Active> {
        if let Some(active) = self.response.take() {
            return Some(active);
        }
        if self.current.as_ref().is_some_and(|a| a.tagged) {
            return None;
        }
        let req = self.node.inner.irq.pop_front()?;
        let data = if req.len == 0 {
            Vec::new()
        } else {
            let region = &self.node.inner.regions[&req.src_stag.0];
            let range = region.range(req.src_to.0, req.len).expect("checked");
            region.data[range].to_vec()
        };
        let message = Message::ReadResponse {
            stag: req.sink_stag,
            to: req.sink_to,
        };
        Some(Active::new(message, data))
    }
}
