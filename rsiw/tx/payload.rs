// SPDX-License-Identifier: GPL-2.0

//! The bytes of FPDUs on their way into a batch: headers, and the one copy of the payload.

use crate::mem::{gather::Gather, HeldAccess, MemError};
use iwarp::tx::{Framer, Payload, Segment, Sink};
use kernel::prelude::*;
use net::{PageSpan, TxBatch};

/// Bytes of an FPDU that are not payload: length, header, pad, CRC. Only an estimate of a batch's
/// length is made of it.
pub(super) const OVERHEAD: usize = 2 + 18 + 3 + 4;

/// Bytes of an FPDU around a ULPDU that needs no pad: length and CRC.
pub(super) const FRAME: usize = 2 + 4;

/// Bytes of the longest FPDU without markers. A batch of a large FPDU is no longer, though it has
/// room for more, and so have TCP's packets where a segment has 1448 bytes: what is left of them
/// would be another FPDU, of some hundred bytes, which costs more than a packet now and then.
pub(super) const LARGE: usize = FRAME + iwarp::MAX_ULPDU as usize;

/// Why bytes of an FPDU could not be put into the batch.
pub(super) enum Stop {
    /// There is no memory for the batch; there may be later.
    NoMemory,
    /// The payload's memory cannot be read.
    Memory(MemError),
}

impl From<Error> for Stop {
    fn from(_: Error) -> Self {
        Stop::NoMemory
    }
}

/// The engine's sink where an FPDU is written to the batch piece by piece.
pub(super) struct Pieces<'a> {
    pub(super) batch: &'a mut TxBatch,
    pub(super) gather: &'a mut Gather,
    pub(super) access: &'a mut HeldAccess,
}

impl Sink for Pieces<'_> {
    type Error = Stop;

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        kext::crc32c(crc, data)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        Ok(self.batch.put(bytes)?)
    }

    fn put_payload(&mut self, len: u32, mut crc: Option<u32>) -> Result<u32, Stop> {
        let mut left = len as usize;
        while left > 0 {
            let mut room = self.batch.reserve_up_to(left)?;
            left -= room.len();
            crc = copied(self.gather, self.access, room.bytes(), crc)?;
            room.commit();
        }
        Ok(crc.unwrap_or(0))
    }
}

/// The engine's sink of an FPDU whose payload is not copied. It has no CRC.
pub(super) struct Referring<'a, I> {
    pub(super) batch: &'a mut TxBatch,
    /// The payload.
    pub(super) spans: I,
}

impl<I: Iterator<Item = PageSpan>> Sink for Referring<'_, I> {
    type Error = Stop;

    fn crc32c(&mut self, crc: u32, _: &[u8]) -> u32 {
        crc
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        Ok(self.batch.put(bytes)?)
    }

    fn put_payload(&mut self, len: u32, _: Option<u32>) -> Result<u32, Stop> {
        let mut left = len as usize;
        while left > 0 {
            let mut span = self.spans.next().ok_or(OTHER_SIZE)?;
            span.truncate(left);
            left = left.saturating_sub(span.len());
            self.batch.refer(span)?;
        }
        Ok(0)
    }
}

/// The payload of FPDUs that are written in whole: copies the next bytes of it.
struct CopyNext<F>(F);

impl<F: FnMut(&mut [u8]) -> Result<(), MemError>> Payload for CopyNext<F> {
    type Error = Stop;

    #[inline]
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        kext::crc32c(crc, data)
    }

    #[inline]
    fn copy_to(&mut self, dst: &mut [u8]) -> Result<(), Stop> {
        (self.0)(dst).map_err(Stop::Memory)
    }
}

/// An FPDU is longer or shorter than [`Framer::fpdu_len`] has said.
const OTHER_SIZE: Stop = Stop::Memory(MemError::Bounds);

/// Copies the next `dst.len()` bytes of the payload; returns `crc` updated over them.
#[inline]
fn copied(
    gather: &mut Gather,
    access: &mut HeldAccess,
    dst: &mut [u8],
    crc: Option<u32>,
) -> Result<Option<u32>, Stop> {
    gather.copy_to(access, dst).map_err(Stop::Memory)?;
    // The CRC is taken of the copy: the copy is sent, while the source may change at any time. It
    // is taken now, while the copy is in the cache.
    Ok(crc.map(|crc| kext::crc32c(crc, dst)))
}

/// Writes `fpdu` to all of `room`.
#[inline]
pub(super) fn write_one(
    framer: &Framer,
    fpdu: &Segment,
    room: &mut [u8],
    gather: &mut Gather,
    access: &mut HeldAccess,
) -> Result<(), Stop> {
    let mut bytes = CopyNext(|dst: &mut [u8]| gather.copy_to(access, dst));
    if !framer.write_whole(fpdu, room, &mut bytes)? {
        return Err(OTHER_SIZE);
    }
    Ok(())
}

/// Writes `fpdu` and those that follow it and are like it, `count` of `len` bytes each, to all of
/// `room`.
#[inline(never)]
pub(super) fn write_all(
    framer: &Framer,
    fpdu: &mut Segment,
    (len, count): (usize, usize),
    room: &mut [u8],
    gather: &mut Gather,
    access: &mut HeldAccess,
) -> Result<(), Stop> {
    let of_all = usize::from(fpdu.payload_len()) * count;
    match gather.reader(access, of_all).map_err(Stop::Memory)? {
        // One piece of memory: its rights and bounds were checked once.
        Some((mut reader, end)) => {
            let next = |dst: &mut [u8]| reader.read(dst).map_err(|_| MemError::Bounds);
            write_each(framer, fpdu, len, room, CopyNext(next))?;
            gather.seek(end);
            Ok(())
        }
        None => {
            let next = |dst: &mut [u8]| gather.copy_to(access, dst);
            write_each(framer, fpdu, len, room, CopyNext(next))
        }
    }
}

/// Writes `fpdu` and those that follow it and are like it, of `len` bytes each, to all of `room`.
#[inline]
fn write_each(
    framer: &Framer,
    fpdu: &mut Segment,
    len: usize,
    room: &mut [u8],
    mut bytes: impl Payload<Error = Stop>,
) -> Result<(), Stop> {
    let mut left = room;
    loop {
        let (room, rest) = left.split_at_mut_checked(len).ok_or(OTHER_SIZE)?;
        if !framer.write_whole(fpdu, room, &mut bytes)? {
            return Err(OTHER_SIZE);
        }
        // All that is reserved becomes part of the batch, so all of it must be written.
        if rest.is_empty() {
            return Ok(());
        }
        left = rest;
        fpdu.step();
    }
}
