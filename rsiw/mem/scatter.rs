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
use iwarp::SharedByte;
use kernel::{alloc::Flags, prelude::*};
use rdma::{LocalSge, Wqe};

/// One buffer of a receive request.
#[derive(Clone)]
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
/// A queue pair uses one `Scatter` for all its receives, in place. It has room for as many pieces
/// as receives have at most, and most have one. Resolved regions stay for the next receive, which
/// often needs the same ones.
pub(crate) struct Scatter {
    first: Piece,
    more: KVec<Piece>,
    /// Pieces in use.
    count: usize,
    len: u32,
    at: usize,
}

impl Scatter {
    /// A sink without buffers. Those to come have up to `pieces` of them. Context: sleeping.
    /// Errors: `ENOMEM`.
    pub(crate) fn new(pieces: u32, flags: Flags) -> Result<Self> {
        Ok(Self {
            first: Piece::NONE,
            more: KVec::from_elem(Piece::NONE, pieces.saturating_sub(1) as usize, flags)?,
            count: 0,
            len: 0,
            at: 0,
        })
    }

    /// A piece.
    fn piece(&self, at: usize) -> Option<&Piece> {
        match at {
            at if at >= self.count => None,
            0 => Some(&self.first),
            at => self.more.get(at - 1),
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
        let mut named = rqe.sges(rqe.num_sge).filter(|sge| sge.length() != 0);
        let Some(sge) = named.next() else {
            return true;
        };
        self.first.begin(sge, 0);
        let (mut count, mut len) = (1, sge.length());
        for (piece, sge) in self.more.iter_mut().zip(named) {
            piece.begin(sge, len);
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
        (self.count, self.len, self.at) = (0, 0, 0);
        self.first = Piece::NONE;
        self.more.iter_mut().for_each(|piece| *piece = Piece::NONE);
    }

    /// Bytes that the buffers have room for.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    //= 5041-5.2-4
    /// Copies `data` to `offset` of the message. Context: any. Errors: as of [`Regions::get`].
    pub(crate) fn write(
        &mut self,
        access: &mut HeldAccess,
        regions: &Regions,
        pd: PdId,
        mut offset: u32,
        mut data: &[SharedByte],
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
    #[inline]
    fn seek(&mut self, offset: u32) -> Result<&mut Piece, MemError> {
        if self.at == 0 && self.count != 0 && self.first.holds(offset) {
            return Ok(&mut self.first);
        }
        self.seek_further(offset)
    }

    #[inline(never)]
    fn seek_further(&mut self, offset: u32) -> Result<&mut Piece, MemError> {
        let holds = |piece: &Piece| piece.holds(offset);
        if !self.piece(self.at).is_some_and(holds) {
            let mut pieces = (0..self.count).map_while(|at| self.piece(at));
            self.at = pieces.position(holds).ok_or(MemError::Bounds)?;
        }
        match self.at {
            0 => Ok(&mut self.first),
            at => self.more.get_mut(at - 1).ok_or(MemError::Bounds),
        }
    }
}

impl Piece {
    const NONE: Self = Self {
        sge: LocalSge::NONE,
        start: 0,
        resolved: None,
        checked: false,
    };

    /// Makes it the buffer whose first byte is at `start` of the message.
    #[inline]
    fn begin(&mut self, sge: LocalSge, start: u32) {
        (self.sge, self.start, self.checked) = (sge, start, false);
    }

    /// Whether it holds `offset` of the message.
    #[inline]
    fn holds(&self, offset: u32) -> bool {
        offset >= self.start && offset - self.start < self.sge.length()
    }

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
