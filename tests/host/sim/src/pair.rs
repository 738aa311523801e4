// SPDX-License-Identifier: GPL-2.0

//! Two peers that run a script against each other over a simulated wire.

mod bad;

pub use bad::Bad;

use std::collections::VecDeque;

use iwarp::rdmap::{AtomicRequest, Immediate, ATOMIC_LEN};
use iwarp::{ReadRequest, Stag, TaggedOffset, TermCode};

use crate::node::{Received, Region};
use crate::peer::{Op, Peer};
use crate::stream::{atomic, pattern};
use crate::Entropy;

/// Region that the peer may write.
pub(crate) const WRITABLE: u32 = 0x100;
/// Region that the peer may read.
pub(crate) const READABLE: u32 = 0x200;
/// Sink of this end's reads.
pub(crate) const SINK: u32 = 0x300;
/// Region on which the peer may execute Atomic Operations, and which it may read.
pub(crate) const COUNTERS: u32 = 0x380;
/// How many values it has.
const COUNTERS_COUNT: u32 = 4;
/// First of the regions that the peer may invalidate.
const DOOMED: u32 = 0x400;
/// Number of these regions.
const DOOMED_COUNT: u32 = 4;
/// Size of a region in bytes.
pub(crate) const SIZE: u32 = 40_000;
/// Content of memory before it is written.
pub(crate) const BLANK: u8 = 0xee;

/// The expected results of an end's operations.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Messages at the other end, in order.
    pub(crate) received: Vec<Received>,
    /// Completed writes at the other end.
    pub(crate) writes: u32,
    /// Content of the other end's writable region, in order of Tagged Offset.
    written: Vec<u8>,
    /// Lengths of this end's reads, in order.
    pub(crate) reads: Vec<u32>,
    /// Content of this end's sink.
    pub(crate) sunk: Vec<u8>,
    /// Original values that this end's Atomic Operations return, in order.
    pub(crate) fetched: Vec<u64>,
    /// The other end's values in the end.
    counters: [u64; COUNTERS_COUNT as usize],
}

impl Expected {
    /// The other end's values, as they lie in memory.
    fn counter_bytes(&self) -> Vec<u8> {
        let bytes = self.counters.iter().flat_map(|value| value.to_ne_bytes());
        bytes.collect()
    }
}

/// One end with its script.
pub(crate) struct End {
    pub(crate) peer: Peer,
    pub(crate) expected: Expected,
    /// Bytes on the way to the other end.
    pub(crate) wire: VecDeque<u8>,
    mulpdu: u16,
    bad: Option<(Bad, TermCode)>,
}

fn base(stag: u32, name: u32) -> u64 {
    // Anything but zero, and different at both ends. Only values need an alignment.
    let odd = if stag == COUNTERS { 0x128 } else { 0x123 };
    (u64::from(stag) << 32) | (u64::from(name) << 20) | odd
}

fn region(stag: u32, name: u32) -> Region {
    let mut region = Region {
        base: base(stag, name),
        data: vec![BLANK; SIZE as usize],
        read: stag == READABLE || stag == COUNTERS,
        write: stag == WRITABLE,
        atomic: stag == COUNTERS,
        invalidate: stag >= DOOMED,
        valid: true,
    };
    if region.atomic {
        region.data = vec![0; (COUNTERS_COUNT * ATOMIC_LEN) as usize];
    } else if region.read {
        region.data = pattern(stag ^ name, SIZE);
    }
    region
}

impl End {
    /// An end named `name` whose other end is named `other`.
    fn new(e: &mut Entropy, crc: bool, depth: (usize, usize)) -> Self {
        let (ird, ord) = depth;
        let mulpdu = match e.below(4) {
            0 => 128,
            1 => 1442,
            2 => 64768,
            _ => 128 + (e.below(64641) as u16),
        };
        Self {
            peer: Peer::new(crc, ird, ord),
            expected: Expected::default(),
            wire: VecDeque::new(),
            mulpdu,
            bad: None,
        }
    }

    /// Makes this end's script, and prepares receives and regions for it at `to`.
    fn script(&mut self, e: &mut Entropy, to: &mut Self, name: u32, other: u32, most: u32) {
        let mut written = 0;
        let mut read = 0;
        let mut sunk = 0;
        let mut doomed = 0;
        for i in 0..e.below(most + 1) {
            let len = e.len(12_000);
            match e.below(9) {
                0 | 1 => {
                    let invalidate = (e.flag() && doomed < DOOMED_COUNT).then(|| {
                        doomed += 1;
                        DOOMED + doomed - 1
                    });
                    let data = pattern(name ^ i, len);
                    let solicited = e.flag();
                    to.peer.node().rq.push_back((len + e.below(3)) as usize);
                    self.expected.received.push(Received {
                        data: data.clone(),
                        immediate: None,
                        solicited,
                        invalidate,
                    });
                    self.peer.sq.push_back(Op::Send {
                        data,
                        solicited,
                        invalidate,
                    });
                }
                2 => {
                    let data = pattern(name ^ i, len);
                    let (solicited, immediate) = (e.flag(), e.u32().to_be_bytes());
                    to.peer.node().rq.push_back((len + e.below(3)) as usize);
                    self.expected.received.push(Received {
                        data: data.clone(),
                        immediate: Some(immediate.to_vec()),
                        solicited,
                        invalidate: None,
                    });
                    self.peer.sq.push_back(Op::SendImmediate {
                        data,
                        solicited,
                        immediate,
                    });
                }
                3 | 4 => {
                    let len = len.min(SIZE - written);
                    let data = pattern(name ^ i, len);
                    self.expected.writes += 1;
                    self.expected.written.extend(&data);
                    self.peer.sq.push_back(Op::Write {
                        data,
                        stag: WRITABLE,
                        to: base(WRITABLE, other) + u64::from(written),
                    });
                    written += len;
                }
                5 => {
                    let data = Immediate(core::array::from_fn(|_| e.u8()));
                    let solicited = e.flag();
                    // Nothing is placed in its buffer.
                    to.peer.node().rq.push_back(e.below(3) as usize);
                    self.expected.received.push(Received {
                        data: Vec::new(),
                        immediate: Some(data.0.to_vec()),
                        solicited,
                        invalidate: None,
                    });
                    self.peer.sq.push_back(Op::Immediate { data, solicited });
                }
                6 => {
                    let (op, at) = (atomic(e), e.below(COUNTERS_COUNT));
                    let value = &mut self.expected.counters[at as usize];
                    self.expected.fetched.push(*value);
                    *value = op.apply(*value);
                    self.peer.sq.push_back(Op::Atomic(AtomicRequest {
                        id: e.u32(),
                        stag: Stag(COUNTERS),
                        to: TaggedOffset(base(COUNTERS, other) + u64::from(at * ATOMIC_LEN)),
                        op,
                    }));
                }
                // A Read of the values finds what the Atomic Operations before it have made.
                7 => {
                    let bytes = self.expected.counter_bytes();
                    let len = (bytes.len() as u32).min(SIZE - sunk);
                    self.expected.sunk.extend(&bytes[..len as usize]);
                    self.expected.reads.push(len);
                    self.peer.sq.push_back(Op::Read(ReadRequest {
                        sink_stag: Stag(SINK),
                        sink_to: TaggedOffset(base(SINK, name) + u64::from(sunk)),
                        len,
                        src_stag: Stag(COUNTERS),
                        src_to: TaggedOffset(base(COUNTERS, other)),
                    }));
                    sunk += len;
                }
                _ => {
                    let len = len.min(SIZE - read).min(SIZE - sunk);
                    let source = &to.peer.node().regions[&READABLE].data;
                    let bytes = &source[read as usize..(read + len) as usize];
                    self.expected.sunk.extend(bytes);
                    self.expected.reads.push(len);
                    self.peer.sq.push_back(Op::Read(ReadRequest {
                        sink_stag: Stag(SINK),
                        sink_to: TaggedOffset(base(SINK, name) + u64::from(sunk)),
                        len,
                        // For a zero-length read, STag and TO are not checked.
                        src_stag: Stag(if len == 0 { 0 } else { READABLE }),
                        src_to: TaggedOffset(base(READABLE, other) + u64::from(read)),
                    }));
                    sunk += len;
                    // Reads may overlap at their source.
                    read += e.below(len + 1);
                }
            }
        }
    }

    /// Ends the script with an operation that the other end must refuse.
    fn spoil(&mut self, e: &mut Entropy, to: &mut Self, name: u32, other: u32) {
        let (bad, code) = Bad::ALL[e.below(Bad::ALL.len() as u32) as usize];
        self.bad = Some((bad, code));
        let len = 1 + e.len(5000);
        let data = pattern(name, len);
        let op = atomic(e);
        let end = |stag| base(stag, other) + u64::from(SIZE) - u64::from(len) + 1;
        let write = |stag, to| Op::Write {
            data: data.clone(),
            stag,
            to,
        };
        let read = |stag, to| {
            Op::Read(ReadRequest {
                sink_stag: Stag(SINK),
                sink_to: TaggedOffset(base(SINK, name)),
                len,
                src_stag: Stag(stag),
                src_to: TaggedOffset(to),
            })
        };
        let on = |stag, to| {
            Op::Atomic(AtomicRequest {
                id: 7,
                stag: Stag(stag),
                to: TaggedOffset(to),
                op,
            })
        };
        let send = |invalidate| Op::Send {
            data: data.clone(),
            solicited: false,
            invalidate,
        };
        self.peer.sq.push_back(match bad {
            Bad::WriteStag => write(0xbad, 0),
            Bad::WriteBounds => {
                // Its segments before the one that leaves the region are placed.
                let before = (SIZE - len + 1) as usize;
                self.expected.written.truncate(before);
                write(WRITABLE, end(WRITABLE))
            }
            Bad::WriteAccess => write(READABLE, base(READABLE, other)),
            Bad::ReadStag => read(0xbad, 0),
            Bad::ReadBounds => read(READABLE, end(READABLE)),
            Bad::ReadAccess => read(WRITABLE, base(WRITABLE, other)),
            Bad::SendTooLong => {
                to.peer.node().rq.push_back(len as usize - 1);
                send(None)
            }
            Bad::SendNoBuffer => send(None),
            Bad::Invalidate => {
                to.peer.node().rq.push_back(len as usize);
                send(Some(READABLE))
            }
            Bad::ImmediateNoBuffer => Op::Immediate {
                data: Immediate::default(),
                solicited: false,
            },
            Bad::AtomicStag => on(0xbad, 0),
            Bad::AtomicBounds => {
                let size = u64::from(COUNTERS_COUNT * ATOMIC_LEN);
                on(COUNTERS, base(COUNTERS, other) + size)
            }
            Bad::AtomicAccess => on(WRITABLE, base(WRITABLE, other)),
            Bad::AtomicMisaligned => on(COUNTERS, base(COUNTERS, other) + 4),
        });
    }

    /// Checks the effects of the other end's script on this end.
    fn check(&mut self, other: &Expected, reads: bool, name: u32) {
        let node = self.peer.node();
        assert_eq!(node.received, other.received, "messages or their order");
        assert_eq!(node.writes, other.writes, "writes");
        let at = other.written.len();
        let writable = &node.regions[&WRITABLE].data;
        assert!(writable[..at] == other.written, "bytes written");
        for sent in &other.received {
            if let Some(stag) = sent.invalidate {
                assert!(!node.regions[&stag].valid, "invalidated");
            }
        }
        assert!(
            node.regions[&READABLE].data == pattern(READABLE ^ name, SIZE),
            "read-only memory has changed"
        );
        if reads {
            assert!(writable[at..].iter().all(|b| *b == BLANK), "bytes beyond");
            assert_eq!(node.reads, self.expected.reads, "reads or their order");
            let values = &node.regions[&COUNTERS].data;
            assert_eq!(*values, other.counter_bytes(), "values");
            assert_eq!(node.fetched, self.expected.fetched, "original values");
            let at = self.expected.sunk.len();
            let sink = &node.regions[&SINK].data;
            assert!(sink[..at] == self.expected.sunk, "bytes read");
            assert!(sink[at..].iter().all(|b| *b == BLANK), "bytes beyond");
            assert!(!self.peer.mid_message());
        }
    }
}

/// Statistics of a run, which show that runs are not trivial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Operations that both ends began.
    pub operations: usize,
    /// FPDUs that were sent.
    pub fpdus: u32,
    /// The run ended by a Terminate.
    pub terminated: bool,
    /// Atomic Operations that were completed.
    pub atomics: usize,
    /// Messages with immediate data that were received.
    pub immediates: usize,
}

/// Two ends, each with its script for the other.
pub(crate) fn ends(e: &mut Entropy, crc: bool, most: u32) -> (End, End) {
    let depth = (1 + e.below(4) as usize, 1 + e.below(4) as usize);
    let mut a = End::new(e, crc, depth);
    let mut b = End::new(e, crc, (depth.1, depth.0));
    for (end, name) in [(&mut a, 0), (&mut b, 1)] {
        for stag in [WRITABLE, READABLE, SINK, COUNTERS] {
            end.peer.node().regions.insert(stag, region(stag, name));
        }
        for stag in DOOMED..DOOMED + DOOMED_COUNT {
            end.peer.node().regions.insert(stag, region(stag, name));
        }
    }
    a.script(e, &mut b, 0, 1, most);
    b.script(e, &mut a, 1, 0, most);
    (a, b)
}

/// Runs two peers; panics if anything goes wrong.
pub fn run(e: &mut Entropy, most: u32) -> Summary {
    let crc = e.below(4) != 0;
    let (mut a, mut b) = ends(e, crc, most);
    if e.below(4) == 0 {
        a.spoil(e, &mut b, 0, 1);
    }

    let mut summary = Summary::default();
    let mut idle = 0;
    while idle < 4 {
        let progress = match e.below(4) + idle {
            0 | 4 => transmit(&mut a, e, &mut summary),
            1 | 5 => transmit(&mut b, e, &mut summary),
            2 | 6 => pass(&mut a.wire, &mut b.peer, e),
            _ => pass(&mut b.wire, &mut a.peer, e),
        };
        // After a step without progress, all four kinds of step are tried in turn before the run
        // ends.
        if progress {
            idle = 0;
        } else if !(transmit(&mut a, e, &mut summary)
            || transmit(&mut b, e, &mut summary)
            || pass(&mut a.wire, &mut b.peer, e)
            || pass(&mut b.wire, &mut a.peer, e))
        {
            idle += 1;
        }
    }

    summary.operations = a.peer.begun + b.peer.begun;
    for end in [&mut a, &mut b] {
        let node = end.peer.node();
        summary.atomics += node.fetched.len();
        let immediates = node.received.iter().filter(|r| r.immediate.is_some());
        summary.immediates += immediates.count();
    }
    let (a_expected, b_expected) = (
        core::mem::take(&mut a.expected),
        core::mem::take(&mut b.expected),
    );
    match a.bad {
        None => {
            assert!(a.peer.sq.is_empty() && b.peer.sq.is_empty(), "stuck");
            assert!(a.peer.fault.is_none() && b.peer.fault.is_none(), "fault");
            a.expected.reads.clone_from(&a_expected.reads);
            a.expected.sunk.clone_from(&a_expected.sunk);
            a.expected.fetched.clone_from(&a_expected.fetched);
            b.expected.reads.clone_from(&b_expected.reads);
            b.expected.sunk.clone_from(&b_expected.sunk);
            b.expected.fetched.clone_from(&b_expected.fetched);
            a.check(&b_expected, true, 0);
            b.check(&a_expected, true, 1);
        }
        Some((bad, code)) => {
            summary.terminated = true;
            assert!(a.peer.sq.is_empty(), "stuck");
            // Everything before the faulty operation has arrived, and the operation was refused.
            b.check(&a_expected, false, 1);
            let told = a.peer.node().terminated;
            assert_eq!(told.map(|t| t.code()), Some(code), "{bad:?}");
            assert_eq!(told, b.peer.fault.map(as_received), "headers");
            let is_read = matches!(bad, Bad::ReadStag | Bad::ReadBounds | Bad::ReadAccess);
            let request = told.and_then(|t| t.read_request());
            assert_eq!(request.is_some(), is_read);
        }
    }
    summary
}

/// A Terminate as its receiver sees it: without the bytes after the DDP header that are not sent.
fn as_received(term: iwarp::Terminate) -> iwarp::Terminate {
    let message = iwarp::tx::Message::Terminate { term };
    let mut segmenter = iwarp::tx::Segmenter::new(message, 0);
    let segment = segmenter.next(128).expect("segment");
    iwarp::Terminate::parse(&segment.header()[20..]).expect("Terminate")
}

pub(crate) fn transmit(end: &mut End, e: &mut Entropy, summary: &mut Summary) -> bool {
    let sent = end.peer.transmit(e, end.mulpdu, &mut end.wire);
    summary.fpdus += u32::from(sent);
    sent
}

/// Passes some bytes from a wire to a peer.
pub(crate) fn pass(wire: &mut VecDeque<u8>, to: &mut Peer, e: &mut Entropy) -> bool {
    if wire.is_empty() {
        return false;
    }
    let most = match e.below(4) {
        0 => 1 + e.below(30) as usize,
        1 => 1460,
        _ => 1 + usize::from(e.u16()),
    };
    let chunk: Vec<u8> = wire.drain(..most.min(wire.len())).collect();
    to.receive(&chunk);
    true
}
