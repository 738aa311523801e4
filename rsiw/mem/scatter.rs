// SPDX-License-Identifier: GPL-2.0

//! Scatter: the sink of a message that rx places.
//!
//! Segments of a message may begin at any offset, so the sink is addressed by offsets and is no
//! stream. The position of the last segment is remembered, as the next one nearly always follows
//! it.

use super::{Access, HeldAccess, MemError, Regions, ResolvedMr};
use crate::{
    abi::{Rqe, MAX_SGE},
    pd::PdId,
};
use iwarp::Octet;
use rdma::{LocalSge, Wqe};

/// One buffer of a receive request.
struct Piece {
    sge: LocalSge,
    /// Offset of the buffer's first byte in the message.
    start: u32,
    /// The region of the key, resolved for this message or an earlier one.
    resolved: Option<ResolvedMr>,
    /// `resolved` is for this message. A key is looked up once, when the first byte for it arrives.
    checked: bool,
}

/// The buffers of one receive request.
///
/// A queue pair uses one `Scatter` for all its receives, in place, as it is large. Resolved regions
/// stay for the next receive, which often needs the same ones.
pub(crate) struct Scatter {
    pieces: [Piece; MAX_SGE],
    /// Pieces in use.
    count: usize,
    len: u32,
    at: usize,
}

impl Scatter {
    /// A sink without buffers.
    pub(crate) const fn empty() -> Self {
        Self {
            pieces: [const { Piece::NONE }; MAX_SGE],
            count: 0,
            len: 0,
            at: 0,
        }
    }

    /// Takes the buffers that `rqe` names, which is a private copy. Returns `false`, and has no
    /// buffers, if `rqe` has more than `max_sge` elements, or more bytes than a message can have.
    /// Keys are not looked up yet.
    pub(crate) fn set_receive(&mut self, rqe: &Wqe<Rqe>, max_sge: u32) -> bool {
        (self.count, self.len, self.at) = (0, 0, 0);
        if u32::from(rqe.num_sge) > max_sge.min(MAX_SGE as u32) {
            return false;
        }
        let (mut count, mut len) = (0, 0u32);
        let named = rqe.sges(rqe.num_sge).filter(|sge| sge.length() != 0);
        for (piece, sge) in self.pieces.iter_mut().zip(named) {
            (piece.sge, piece.start, piece.checked) = (sge, len, false);
            count += 1;
            len = match len.checked_add(sge.length()) {
                Some(len) => len,
                None => return false,
            };
        }
        (self.count, self.len) = (count, len);
        true
    }

    /// Drops all buffers and references to regions.
    pub(crate) fn release(&mut self) {
        *self = Self::empty();
    }

    /// Octets that the buffers have room for.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Copies `data` to `offset` of the message. Context: any. Errors: as of [`Regions::get`].
    pub(crate) fn write(
        &mut self,
        access: &mut HeldAccess,
        regions: &Regions,
        pd: PdId,
        mut offset: u32,
        mut data: &[Octet],
    ) -> Result<(), MemError> {
        while !data.is_empty() {
            let piece = self.seek(offset)?;
            let inside = offset - piece.start;
            let n = data.len().min((piece.sge.length() - inside) as usize);
            let (head, tail) = data.split_at(n);
            let (resolved, sge) = piece.resolved(regions, pd)?;
            resolved.write_sge(access, sge, inside, head)?;
            data = tail;
            offset += n as u32;
        }
        Ok(())
    }

    /// The piece that holds `offset`.
    fn seek(&mut self, offset: u32) -> Result<&mut Piece, MemError> {
        let pieces = self.pieces.get_mut(..self.count).ok_or(MemError::Bounds)?;
        let holds = |p: &Piece| offset >= p.start && offset - p.start < p.sge.length();
        if !pieces.get(self.at).is_some_and(holds) {
            self.at = pieces.iter().position(holds).ok_or(MemError::Bounds)?;
        }
        pieces.get_mut(self.at).ok_or(MemError::Bounds)
    }
}

impl Piece {
    const NONE: Self = Self {
        sge: LocalSge::NONE,
        start: 0,
        resolved: None,
        checked: false,
    };

    /// The region of the buffer's key, and the buffer.
    fn resolved(
        &mut self,
        regions: &Regions,
        pd: PdId,
    ) -> Result<(&ResolvedMr, &LocalSge), MemError> {
        if !self.checked {
            let (sge, cached) = (&self.sge, &mut self.resolved);
            let range = (sge.addr(), sge.length());
            regions.resolve_cached(cached, sge.lkey(), pd, range, Access::LOCAL_WRITE)?;
            self.checked = true;
        }
        let resolved = self.resolved.as_ref().ok_or(MemError::Invalid)?;
        Ok((resolved, &self.sge))
    }
}
