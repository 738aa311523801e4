// SPDX-License-Identifier: GPL-2.0

//! Streams of arbitrary messages, framed by the engine.

use iwarp::rdmap::{AtomicOp, AtomicRequest, AtomicResponse, Flush, Immediate};
use iwarp::tx::{Framer, Message, Payload, Segmenter, Sink};
use iwarp::{Msn, ReadRequest, Stag, TaggedOffset, TermCode, Terminate};

use crate::{crc32c, Entropy};

/// A sink that appends to a vector and takes payload from a slice.
#[derive(Debug)]
pub struct Tape<'a> {
    /// The bytes of all calls.
    pub out: Vec<u8>,
    /// Payload of the message.
    pub payload: &'a [u8],
    /// Offset of the next byte of payload.
    pub at: usize,
}

impl Sink for Tape<'_> {
    type Error = core::convert::Infallible;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        assert!(!data.is_empty(), "crc32c of no bytes");
        crc32c(crc, data)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        assert!(!bytes.is_empty(), "put of no bytes");
        self.out.extend(bytes);
        Ok(())
    }

    fn put_payload(&mut self, len: u32, crc: Option<u32>) -> Result<u32, Self::Error> {
        assert!(len != 0, "put_payload of no bytes");
        let part = &self.payload[self.at..self.at + len as usize];
        self.at += len as usize;
        self.out.extend(part);
        Ok(crc.map_or(0, |crc| crc32c(crc, part)))
    }
}

/// The payload of a message that was not written yet.
struct Rest<'a>(&'a [u8]);

impl Payload for Rest<'_> {
    type Error = core::convert::Infallible;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        crc32c(crc, data)
    }

    fn copy_to(&mut self, dst: &mut [u8]) -> Result<(), Self::Error> {
        assert!(!dst.is_empty(), "copy_to no bytes");
        let (now, later) = self.0.split_at(dst.len());
        dst.copy_from_slice(now);
        self.0 = later;
        Ok(())
    }
}

/// A message and its payload.
#[derive(Clone, Debug)]
pub struct Item {
    /// The message.
    pub message: Message,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A pattern in which bytes at different positions differ.
pub fn pattern(seed: u32, len: u32) -> Vec<u8> {
    (0..len)
        .map(|i| {
            let x = (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b1);
            (x >> 24) as u8
        })
        .collect()
}

/// An Atomic Operation on small and on large numbers, or one of those that no RFC has.
pub fn atomic(e: &mut Entropy) -> AtomicOp {
    let mut operand = || match e.below(4) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::from(e.u8()) << e.below(57),
        _ => (u64::from(e.u32()) << 32) | u64::from(e.u32()),
    };
    let (first, mask) = (operand(), operand());
    let (compare, compare_mask) = (operand(), operand());
    match e.below(8) {
        0 => AtomicOp::Write {
            bytes: first.to_ne_bytes(),
        },
        1 => AtomicOp::Flush(Flush {
            len: first as u32,
            global: e.flag(),
            persistent: e.flag(),
            all: e.flag(),
        }),
        2..=4 => AtomicOp::FetchAdd { add: first, mask },
        _ => AtomicOp::CmpSwap {
            swap: first,
            swap_mask: mask,
            compare,
            compare_mask,
        },
    }
}

/// A sequence of messages as a peer might send it: all but Read Responses, which need a request.
pub fn messages(e: &mut Entropy, most: u32) -> Vec<Item> {
    let mut send_msn = Msn::FIRST;
    let mut read_msn = Msn::FIRST;
    let mut atomic_msn = Msn::FIRST;
    let take = |msn: &mut Msn| core::mem::replace(msn, msn.next());
    let count = 1 + e.below(most);
    let mut items = Vec::new();
    for i in 0..count {
        let mut len = e.len(20_000);
        let kind = e.below(9);
        if kind > 4 {
            len = 0;
        }
        let message = match kind {
            0 | 1 => Message::Send {
                msn: take(&mut send_msn),
                solicited: e.flag(),
                invalidate: e.flag().then(|| Stag(e.u32())),
            },
            2 => Message::SendImmediate {
                msn: take(&mut send_msn),
                solicited: e.flag(),
                data: e.u32().to_be_bytes(),
            },
            3 | 4 => Message::Write {
                stag: Stag(e.u32()),
                to: TaggedOffset(u64::from(e.u32()) << 20),
            },
            5 => Message::ReadRequest {
                msn: take(&mut read_msn),
                req: ReadRequest {
                    sink_stag: Stag(e.u32()),
                    sink_to: TaggedOffset(u64::from(e.u32())),
                    len: e.u32(),
                    src_stag: Stag(e.u32()),
                    src_to: TaggedOffset(u64::from(e.u32())),
                },
            },
            6 => Message::Immediate {
                msn: take(&mut send_msn),
                solicited: e.flag(),
                data: Immediate(core::array::from_fn(|_| e.u8())),
            },
            7 => Message::AtomicRequest {
                msn: take(&mut read_msn),
                req: AtomicRequest {
                    id: e.u32(),
                    stag: Stag(e.u32()),
                    to: TaggedOffset(u64::from(e.u32())),
                    op: atomic(e),
                },
            },
            _ => Message::AtomicResponse {
                msn: take(&mut atomic_msn),
                response: AtomicResponse {
                    id: e.u32(),
                    value: (u64::from(e.u32()) << 32) | u64::from(e.u32()),
                },
            },
        };
        items.push(Item {
            message,
            payload: pattern(i, len),
        });
    }
    if e.below(8) == 0 {
        let code = TermCode::ALL[e.below(TermCode::ALL.len() as u32) as usize].0;
        items.push(Item {
            message: Message::Terminate {
                term: Terminate::new(code),
            },
            payload: Vec::new(),
        });
    }
    items
}

/// The stream of these messages, with segments of at most `mulpdu()` bytes each.
pub fn frame(items: &[Item], crc: bool, markers: bool, mut mulpdu: impl FnMut() -> u16) -> Vec<u8> {
    let mut framer = Framer::new(crc, markers);
    let mut stream = Vec::new();
    for item in items {
        let mut segmenter = Segmenter::new(item.message, item.payload.len() as u32);
        let mut tape = Tape {
            out: stream,
            payload: &item.payload,
            at: 0,
        };
        let mut sent = 0;
        while let Some(segment) = segmenter.next(mulpdu()) {
            assert_eq!(segment.payload_offset(), sent);
            sent += u32::from(segment.payload_len());
            assert_eq!(segmenter.remaining(), item.payload.len() as u32 - sent);
            assert_eq!(segment.last(), segmenter.done());
            let before = tape.out.len();
            let len = framer.fpdu_len(&segment);
            let mut whole = vec![0xee; len];
            let mut rest = Rest(&item.payload[tape.at..]);
            let wrote = framer.write_whole(&segment, &mut whole, &mut rest);
            assert_eq!(wrote, Ok(!markers));
            let Ok(()) = framer.write(&segment, &mut tape);
            assert!(
                markers || whole == tape.out[before..],
                "a whole FPDU differs"
            );
            assert_eq!(
                tape.out.len() - before,
                len,
                "fpdu_len differs from the bytes written"
            );
        }
        assert_eq!(sent as usize, item.payload.len());
        stream = tape.out;
    }
    stream
}
