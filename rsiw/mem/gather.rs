// SPDX-License-Identifier: GPL-2.0

//! Gather: the payload of a message that tx sends, as a stream of bytes.

use super::{Access, Grant, MemError, Regions};
use crate::{
    abi::{Sge, MAX_INLINE, MAX_SGE},
    pd::PdId,
};

struct Piece {
    grant: Grant,
    addr: u64,
    len: u32,
}

enum Source {
    Inline([u8; MAX_INLINE as usize]),
    Regions([Option<Piece>; MAX_SGE]),
}

/// A place in a payload.
#[derive(Clone, Copy)]
pub(crate) struct Position(usize, u32);

/// The payload of one message with a position in it. The regions stay referenced, so their keys
/// are looked up once; a region that is deregistered meanwhile fails the message at its next
/// byte.
pub(crate) struct Gather {
    source: Source,
    /// Piece that the next byte comes from, and the offset in it.
    at: usize,
    offset: u32,
}

impl Gather {
    /// A message without payload.
    pub(crate) const fn empty() -> Self {
        Self {
            source: Source::Regions([const { None }; MAX_SGE]),
            at: 0,
            offset: 0,
        }
    }

    /// The bytes of `data`, at most [`MAX_INLINE`] of them.
    pub(crate) fn of_inline(data: &[u8]) -> Self {
        let mut copy = [0; MAX_INLINE as usize];
        for (to, from) in copy.iter_mut().zip(data) {
            *to = *from;
        }
        Self {
            source: Source::Inline(copy),
            at: 0,
            offset: 0,
        }
    }

    /// What `sges` name, each element checked: key, domain, bounds. Elements without bytes name
    /// nothing, and their keys do not count.
    pub(crate) fn of_sges(regions: &Regions, pd: PdId, sges: &[Sge]) -> Result<Self, MemError> {
        let mut pieces = [const { None }; MAX_SGE];
        let named = sges.iter().filter(|s| s.length != 0);
        for (slot, sge) in pieces.iter_mut().zip(named) {
            let grant = regions.get(sge.lkey, pd, sge.addr, sge.length, Access::LOCAL_READ)?;
            *slot = Some(Piece {
                grant,
                addr: sge.addr,
                len: sge.length,
            });
        }
        Ok(Self {
            source: Source::Regions(pieces),
            at: 0,
            offset: 0,
        })
    }

    /// `len` bytes at `addr` of what was granted; the answer to a Read.
    pub(crate) fn of_grant(grant: Option<Grant>, addr: u64, len: u32) -> Self {
        let mut pieces = [const { None }; MAX_SGE];
        pieces[0] = grant.map(|grant| Piece { grant, addr, len });
        Self {
            source: Source::Regions(pieces),
            at: 0,
            offset: 0,
        }
    }

    /// Where the next byte comes from.
    pub(crate) fn position(&self) -> Position {
        Position(self.at, self.offset)
    }

    /// Goes back to an earlier position.
    pub(crate) fn rewind(&mut self, p: Position) {
        (self.at, self.offset) = (p.0, p.1);
    }

    /// Copies the next bytes of the payload to `dst` and fills it whole.
    ///
    /// # Errors
    ///
    /// When a region went away, or the payload is shorter than asked for.
    pub(crate) fn copy_to(&mut self, mut dst: &mut [u8]) -> Result<(), MemError> {
        let pieces = match &self.source {
            Source::Inline(data) => {
                let from = self.offset as usize;
                let src = data
                    .get(from..)
                    .and_then(|d| d.get(..dst.len()))
                    .ok_or(MemError::Bounds)?;
                dst.copy_from_slice(src);
                self.offset += dst.len() as u32;
                return Ok(());
            }
            Source::Regions(pieces) => pieces,
        };
        while !dst.is_empty() {
            let piece = pieces
                .get(self.at)
                .and_then(Option::as_ref)
                .ok_or(MemError::Bounds)?;
            let n = dst.len().min((piece.len - self.offset) as usize);
            let (head, tail) = dst.split_at_mut(n);
            // The sum was checked when the piece was made.
            let addr = piece.addr.wrapping_add(u64::from(self.offset));
            piece.grant.read(addr, head)?;
            dst = tail;
            self.offset += n as u32;
            if self.offset == piece.len {
                self.at += 1;
                self.offset = 0;
            }
        }
        Ok(())
    }
}
