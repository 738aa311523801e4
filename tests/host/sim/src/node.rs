// SPDX-License-Identifier: GPL-2.0

//! Memory and queues of a peer, as a receiver's handler.

use std::collections::{BTreeMap, VecDeque};

use iwarp::rdmap::{AtomicRequest, ATOMIC_LEN};
use iwarp::rx::{Event, Handler, Placement, ReadExpect, Refusal, Target};
use iwarp::{ReadRequest, SharedByte, Terminate};

use crate::{bytes, crc32c};

/// A memory region with an STag.
#[derive(Clone, Debug)]
pub struct Region {
    /// Tagged Offset of the first byte.
    pub base: u64,
    /// Contents.
    pub data: Vec<u8>,
    /// The peer may read.
    pub read: bool,
    /// The peer may write.
    pub write: bool,
    /// The peer may execute Atomic Operations.
    pub atomic: bool,
    /// The peer may invalidate.
    pub invalidate: bool,
    /// The STag is valid.
    pub valid: bool,
}

impl Region {
    /// The index range in `data` of `len` bytes at `to`.
    pub(crate) fn range(&self, to: u64, len: u32) -> Result<core::ops::Range<usize>, Refusal> {
        let from = to.checked_sub(self.base).ok_or(Refusal::Bounds)?;
        let end = from.checked_add(u64::from(len)).ok_or(Refusal::Wrap)?;
        if end > self.data.len() as u64 {
            return Err(Refusal::Bounds);
        }
        Ok(from as usize..end as usize)
    }
}

/// A Send, or Immediate Data, that has been received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The bytes that were placed.
    pub data: Vec<u8>,
    /// The bytes of Immediate Data, or the immediate data of a Send.
    pub immediate: Option<Vec<u8>>,
    /// With Solicited Event.
    pub solicited: bool,
    /// STag that was invalidated.
    pub invalidate: Option<u32>,
}

/// A request of the peer that has no response yet.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// RDMA Read.
    Read(ReadRequest),
    /// Atomic Operation.
    Atomic(AtomicRequest),
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
    /// Request Identifiers of Atomic Operations without response.
    pub atomics: VecDeque<u32>,
    /// Original values of Atomic Operations completed, in order.
    pub fetched: Vec<u64>,
    /// The peer's requests without response.
    pub irq: VecDeque<Asked>,
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
            atomics: VecDeque::new(),
            fetched: Vec::new(),
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

    /// The contents of the receive buffer that a Send of `len` bytes has filled.
    fn filled(&mut self, len: u32) -> Vec<u8> {
        let (data, _) = self.receiving.take().expect("no buffer");
        assert_eq!(data.len(), len as usize);
        data
    }

    /// Takes a request of the peer, if it does not exceed IRD.
    fn ask(&mut self, asked: Asked) -> Result<(), Refusal> {
        if self.irq.len() >= self.ird {
            return Err(Refusal::ReadQueueFull);
        }
        match &asked {
            Asked::Read(req) => self.check_read(req)?,
            Asked::Atomic(req) => self.check_atomic(req)?,
        }
        self.irq.push_back(asked);
        Ok(())
    }

    fn check_atomic(&self, req: &AtomicRequest) -> Result<(), Refusal> {
        let region = self.valid(req.stag.0)?;
        if !region.atomic {
            return Err(Refusal::Access);
        }
        region.range(req.to.0, ATOMIC_LEN)?;
        if req.to.0 % u64::from(ATOMIC_LEN) != 0 {
            return Err(Refusal::Misaligned);
        }
        Ok(())
    }

    /// Executes an Atomic Operation that was checked; returns the original value.
    pub(crate) fn execute(&mut self, req: &AtomicRequest) -> u64 {
        let region = self.regions.get_mut(&req.stag.0).expect("checked");
        let range = region.range(req.to.0, ATOMIC_LEN).expect("checked");
        let value = region.data[range].first_chunk_mut().expect("eight bytes");
        let old = u64::from_ne_bytes(*value);
        *value = req.op.apply(old).to_ne_bytes();
        old
    }

    fn check_read(&self, req: &ReadRequest) -> Result<(), Refusal> {
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

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
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
        Ok(crc.map_or(0, |crc| self.crc32c_shared(crc, data)))
    }

    fn place_next(&mut self, data: &[SharedByte]) -> bool {
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
                let data = self.filled(len);
                self.received.push(Received {
                    data,
                    immediate: None,
                    solicited,
                    invalidate: invalidate.map(|s| s.0),
                });
            }
            Event::RecvImmediate {
                len,
                solicited,
                data,
            } => {
                let received = Received {
                    data: self.filled(len),
                    immediate: Some(data.to_vec()),
                    solicited,
                    invalidate: None,
                };
                self.received.push(received);
            }
            Event::Immediate { data, solicited } => self.received.push(Received {
                data: Vec::new(),
                immediate: Some(data.0.to_vec()),
                solicited,
                invalidate: None,
            }),
            Event::Write { .. } => self.writes += 1,
            Event::ReadRequest(req) => self.ask(Asked::Read(req))?,
            Event::AtomicRequest(req) => self.ask(Asked::Atomic(req))?,
            Event::AtomicResponse(response) => {
                if self.atomics.front() != Some(&response.id) {
                    return Err(Refusal::Unexpected);
                }
                self.atomics.pop_front();
                self.fetched.push(response.value);
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
