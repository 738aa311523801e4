// SPDX-License-Identifier: GPL-2.0

//! Uses the engine as the driver does, with handlers that are opaque to the optimizer.
//! tests/no_panic.rs compiles it; nothing runs it.

#![no_std]

use iwarp::mpa::{FrameReader, Initiator, Limits, Offer, Responder};
use iwarp::rdmap::AtomicOp;
use iwarp::rx::{Event, FpduAssembler, Handler, Placement, ReadExpect, Receiver, Refusal};
use iwarp::tx::{Framer, Payload, Segmenter, Sink};
use iwarp::{Msn, SharedByte, TermCode, Terminate};

type Update = fn(u32, &[u8]) -> u32;

pub struct Opaque {
    pub crc32c: Update,
    pub expected: fn() -> Option<ReadExpect>,
    pub segment: fn(&Placement) -> Result<(), Refusal>,
    pub end: fn() -> Result<(), Refusal>,
    pub place: fn(&[SharedByte], Option<u32>) -> Result<u32, Refusal>,
    pub place_next: fn(&[SharedByte]) -> bool,
    pub deliver: fn(Event) -> Result<(), Refusal>,
    pub put: fn(&[u8]) -> Result<(), i32>,
    pub put_payload: fn(u32, Option<u32>) -> Result<u32, i32>,
    pub copy_to: fn(&mut [u8]) -> Result<(), i32>,
}

impl Handler for Opaque {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        (self.crc32c)(crc, data)
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        (self.expected)()
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        (self.segment)(p)
    }

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        (self.place)(data, crc)
    }

    fn place_next(&mut self, data: &[SharedByte]) -> bool {
        (self.place_next)(data)
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        (self.end)()
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        (self.deliver)(e)
    }
}

impl Sink for Opaque {
    type Error = i32;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        (self.crc32c)(crc, data)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), i32> {
        (self.put)(bytes)
    }

    fn put_payload(&mut self, len: u32, crc: Option<u32>) -> Result<u32, i32> {
        (self.put_payload)(len, crc)
    }
}

impl Payload for Opaque {
    type Error = i32;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        (self.crc32c)(crc, data)
    }

    fn copy_to(&mut self, dst: &mut [u8]) -> Result<(), i32> {
        (self.copy_to)(dst)
    }
}

#[no_mangle]
pub fn receive(rx: &mut Receiver, h: &mut Opaque, data: &[SharedByte]) -> Option<Terminate> {
    let fault = rx.receive(data, h).err()?;
    rx.terminate_for(&fault)
}

#[no_mangle]
pub fn receive_whole(
    rx: &mut Receiver,
    whole: &mut FpduAssembler<&[SharedByte]>,
    h: &mut Opaque,
    data: &[SharedByte],
) -> bool {
    whole.receive(rx, data, h).is_ok() && rx.at_boundary()
}

#[no_mangle]
pub fn transmit(s: &mut Segmenter, f: &mut Framer, out: &mut Opaque, mulpdu: u16) -> usize {
    match s.next(mulpdu) {
        Some(segment) => {
            let len = f.fpdu_len(&segment);
            f.write(&segment, out).map_or(0, |()| len)
        }
        None => 0,
    }
}

#[no_mangle]
pub fn transmit_whole(
    s: &mut Segmenter,
    f: &Framer,
    out: &mut Opaque,
    mulpdu: u16,
    room: &mut [u8],
) -> bool {
    let Some(mut segment) = s.next(mulpdu) else {
        return false;
    };
    let wrote = f.write_whole(&segment, room, out) == Ok(true);
    segment.step();
    wrote && f.write_whole(&segment, room, out) == Ok(true)
}

#[no_mangle]
pub fn execute(op: AtomicOp, value: &mut u64, code: TermCode, msn: Msn) -> Terminate {
    *value = op.apply(*value);
    Terminate::for_atomic_request(code, msn)
}

#[no_mangle]
pub fn initiate(offer: &Offer<'_>, reply: &[u8], limits: Limits, out: &mut [u8]) -> u16 {
    let mut reader = FrameReader::new(iwarp::mpa::FrameKind::Reply);
    let Ok((initiator, _)) = Initiator::request(offer, out) else {
        return 0;
    };
    if reader.input(reply).is_err() {
        return 1;
    }
    reader
        .frame()
        .and_then(|f| initiator.reply(&f, limits).ok())
        .map_or(2, |agreed| agreed.ord)
}

#[no_mangle]
pub fn respond(request: &[u8], answer: &Offer<'_>, out: &mut [u8]) -> usize {
    let mut reader = FrameReader::new(iwarp::mpa::FrameKind::Request);
    if reader.input(request).is_err() {
        return 0;
    }
    let Some((responder, asked)) = reader.frame().and_then(|f| Responder::request(&f).ok()) else {
        return 1;
    };
    if asked.ord > answer.ird {
        responder.reject(answer.private_data, out).unwrap_or(2)
    } else {
        responder.accept(answer, out).map_or(3, |(_, len)| len)
    }
}
