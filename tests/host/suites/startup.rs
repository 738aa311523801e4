// SPDX-License-Identifier: GPL-2.0

//! MPA frames made without the engine, and helpers for a negotiation.

use iwarp::mpa::{
    Agreed, Asked, FrameKind, FrameReader, Initiator, Limits, MpaError, Offer, Responder, RtrSet,
    FRAME_MAX,
};

pub(crate) const REQUEST_KEY: &[u8] =
    b"\x4d\x50\x41\x20\x49\x44\x20\x52\x65\x71\x20\x46\x72\x61\x6d\x65";
pub(crate) const REPLY_KEY: &[u8] =
    b"\x4d\x50\x41\x20\x49\x44\x20\x52\x65\x70\x20\x46\x72\x61\x6d\x65";

/// An offer with defaults: revision 1, CRC, nothing else.
pub(crate) fn offer() -> Offer<'static> {
    Offer {
        revision: 1,
        crc: true,
        ird: 0,
        ord: 0,
        rtr: RtrSet::EMPTY,
        large_fpdu: false,
        send_immediate: false,
        private_data: &[],
    }
}

/// An enhanced offer.
pub(crate) fn enhanced(ird: u16, ord: u16, rtr: RtrSet) -> Offer<'static> {
    Offer {
        revision: 2,
        ird,
        ord,
        rtr,
        ..offer()
    }
}

pub(crate) const LIMITS: Limits = Limits { ird: 64, ord: 32 };

/// A frame made without the engine.
pub(crate) struct Raw {
    pub(crate) buf: [u8; FRAME_MAX + 8],
    pub(crate) len: usize,
}

impl Raw {
    pub(crate) fn new(key: &[u8], flags: u8, revision: u8, pd_length: u16, data: &[u8]) -> Self {
        let [a, b] = pd_length.to_be_bytes();
        let mut raw = Self {
            buf: [0; FRAME_MAX + 8],
            len: 0,
        };
        for part in [key, &[flags, revision, a, b], data] {
            if let Some(room) = raw.buf.get_mut(raw.len..raw.len + part.len()) {
                room.copy_from_slice(part);
                raw.len += part.len();
            }
        }
        raw
    }

    pub(crate) fn request(flags: u8, revision: u8, data: &[u8]) -> Self {
        Self::new(REQUEST_KEY, flags, revision, data.len() as u16, data)
    }

    pub(crate) fn reply(flags: u8, revision: u8, data: &[u8]) -> Self {
        Self::new(REPLY_KEY, flags, revision, data.len() as u16, data)
    }

    pub(crate) fn get(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn read(&self, kind: FrameKind) -> Result<FrameReader, MpaError> {
        let mut reader = FrameReader::new(kind);
        reader.input(self.get())?;
        Ok(reader)
    }
}

/// Passes this Request to a responder.
pub(crate) fn ask(raw: &Raw) -> Result<(Responder, Asked), MpaError> {
    let reader = raw.read(FrameKind::Request)?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    Responder::request(&frame)
}

/// Passes this Reply to an initiator that made this offer.
pub(crate) fn reply_to(offer: &Offer<'_>, raw: &Raw) -> Result<Agreed, MpaError> {
    let (initiator, _) = Initiator::request(offer, &mut [0; FRAME_MAX])?;
    let reader = raw.read(FrameKind::Reply)?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    initiator.reply(&frame, LIMITS)
}

/// Negotiates between two engines, and returns the initiator's and the responder's result.
pub(crate) fn negotiate(
    offer: &Offer<'_>,
    answer: &Offer<'_>,
) -> Result<(Result<Agreed, MpaError>, Agreed), MpaError> {
    let mut buf = [0; FRAME_MAX];
    let (initiator, len) = Initiator::request(offer, &mut buf)?;
    let mut reader = FrameReader::new(FrameKind::Request);
    reader.input(buf.get(..len).unwrap_or_default())?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    let (responder, _) = Responder::request(&frame)?;
    let (theirs, len) = responder.accept(answer, &mut buf)?;
    let mut reader = FrameReader::new(FrameKind::Reply);
    reader.input(buf.get(..len).unwrap_or_default())?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    Ok((initiator.reply(&frame, LIMITS), theirs))
}

pub(crate) fn fail(_: MpaError) -> super::Failed {
    super::Failed {
        line: 0,
        what: "unexpected MpaError",
    }
}
