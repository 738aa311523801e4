// SPDX-License-Identifier: GPL-2.0

//! Gather: the payload of a message that tx sends, as a stream of bytes.

use super::{Access, MemError, Regions, ResolvedMr};
use crate::{
    abi::{sges_beyond, Sge, MAX_INLINE, MAX_SGE},
    pd::PdId,
};
use kernel::prelude::*;

struct Piece {
    resolved: Option<ResolvedMr>,
    addr: u64,
    len: u32,
}

impl Piece {
    const NONE: Self = Self {
        resolved: None,
        addr: 0,
        len: 0,
    };
}

/// Whether both are one element, cut in two.
fn follows(sge: &Sge, next: &Sge) -> bool {
    next.lkey == sge.lkey
        && sge.addr.checked_add(sge.length.into()) == Some(next.addr)
        && sge.length.checked_add(next.length).is_some()
}

/// A place in a payload.
#[derive(Clone, Copy)]
pub(crate) struct Position(usize, u32);

/// The payload of one message with a position in it. The regions stay referenced, so their keys
/// are looked up once; a region that is deregistered meanwhile fails the message at its next
/// byte.
///
/// One of these serves message after message, in place: it is large.
pub(crate) struct Gather {
    /// The payload is in `data`, and there are no pieces.
    inline: bool,
    data: [u8; MAX_INLINE as usize],
    pieces: [Piece; MAX_SGE],
    /// More of them, for kernel consumers.
    more: KVec<Piece>,
    /// Pieces in use.
    count: usize,
    /// Piece that the next byte comes from, and the offset in it.
    at: usize,
    offset: u32,
}

impl Gather {
    /// No payload; those to come are in up to `pieces` pieces. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(pieces: u32) -> Result<Self> {
        let count = sges_beyond(pieces);
        let mut more = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            more.push(Piece::NONE, GFP_KERNEL)?;
        }
        Ok(Self {
            inline: false,
            data: [0; MAX_INLINE as usize],
            pieces: [const { Piece::NONE }; MAX_SGE],
            more,
            count: 0,
            at: 0,
            offset: 0,
        })
    }

    /// The payload is over. What was granted stays for the next one, which most often needs the
    /// same; a region that is gone meanwhile is found out then, and its memory does not wait.
    pub(crate) fn clear(&mut self) {
        self.inline = false;
        (self.count, self.at, self.offset) = (0, 0, 0);
    }

    /// The payload is the bytes of `data`, at most [`MAX_INLINE`] of them.
    pub(crate) fn set_inline(&mut self, data: &[u8]) {
        self.clear();
        self.inline = true;
        for (to, from) in self.data.iter_mut().zip(data) {
            *to = *from;
        }
    }

    /// The payload is what `sges` name, each element checked: key, domain, bounds. Elements
    /// without bytes name nothing, and their keys do not count. Neighbours are one piece, as pages of a
    /// list often are: one look at the key, and one copy.
    pub(crate) fn set_sges<'a>(
        &mut self,
        regions: &Regions,
        pd: PdId,
        sges: impl Iterator<Item = &'a Sge>,
    ) -> Result<(), MemError> {
        self.clear();
        let mut named = sges.filter(|s| s.length != 0).copied().peekable();
        let joined = core::iter::from_fn(|| {
            let mut sge = named.next()?;
            while let Some(next) = named.next_if(|next| follows(&sge, next)) {
                sge.length += next.length;
            }
            Some(sge)
        });
        let pieces = Iterator::chain(self.pieces.iter_mut(), &mut self.more);
        for (piece, sge) in pieces.zip(joined) {
            self.count += 1;
            let range = (sge.addr, sge.length);
            regions.resolve_cached(&mut piece.resolved, sge.lkey, pd, range, Access::LOCAL_READ)?;
            (piece.addr, piece.len) = range;
        }
        Ok(())
    }

    /// The payload is `len` bytes at `addr` of what was granted: the answer to a Read.
    pub(crate) fn set_grant(&mut self, resolved: Option<ResolvedMr>, addr: u64, len: u32) {
        self.clear();
        self.count = 1;
        self.pieces[0] = Piece {
            resolved,
            addr,
            len,
        };
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
        if self.inline {
            let from = self.offset as usize;
            let src = self
                .data
                .get(from..)
                .and_then(|d| d.get(..dst.len()))
                .ok_or(MemError::Bounds)?;
            dst.copy_from_slice(src);
            self.offset += dst.len() as u32;
            return Ok(());
        }
        while !dst.is_empty() {
            let piece = match self.at {
                at if at >= self.count => None,
                at @ ..MAX_SGE => self.pieces.get(at),
                at => self.more.get(at - MAX_SGE),
            };
            let piece = piece.ok_or(MemError::Bounds)?;
            let resolved = piece.resolved.as_ref().ok_or(MemError::Bounds)?;
            let n = dst.len().min((piece.len - self.offset) as usize);
            let (head, tail) = dst.split_at_mut(n);
            // The sum was checked when the piece was made.
            let addr = piece.addr.wrapping_add(u64::from(self.offset));
            resolved.read(addr, head)?;
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
