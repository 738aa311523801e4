// SPDX-License-Identifier: GPL-2.0

//! Gather: the payload of a message that tx sends, as a stream of bytes.

use super::{Access, HeldAccess, MemError, Regions, ResolvedMr};
use crate::{abi::MAX_INLINE, pd::PdId};
use kernel::{alloc::Flags, prelude::*};
use net::PageSpan;
use rdma::{LocalSge, Reader};

#[derive(Clone)]
struct Piece {
    resolved: Option<ResolvedMr>,
    sge: LocalSge,
}

impl Piece {
    const NONE: Self = Self {
        resolved: None,
        sge: LocalSge::NONE,
    };
}

/// A position in a payload: piece and offset.
#[derive(Clone, Copy)]
pub(crate) struct Position(usize, u32);

/// The payload of one message, with a position in it.
///
/// It keeps references to the regions, so their keys are looked up once. If a region is
/// deregistered meanwhile, the next copy, or the next [reader](Self::reader), fails.
///
/// A queue pair uses one `Gather` for all its messages, in place. It has room for as many pieces as
/// requests have at most, and most have one.
pub(crate) struct Gather {
    /// The payload is in `data`, not in pieces.
    inline: bool,
    data: [u8; MAX_INLINE as usize],
    first: Piece,
    more: KVec<Piece>,
    /// Pieces in use.
    count: usize,
    /// Piece that the next byte comes from, and its offset in there.
    at: usize,
    offset: u32,
}

impl Gather {
    /// No payload yet. Those to come have up to `pieces` pieces. Context: sleeping. Errors:
    /// `ENOMEM`.
    pub(crate) fn new(pieces: u32, flags: Flags) -> Result<Self> {
        Ok(Self {
            inline: false,
            data: [0; MAX_INLINE as usize],
            first: Piece::NONE,
            more: KVec::from_elem(Piece::NONE, pieces.saturating_sub(1) as usize, flags)?,
            count: 0,
            at: 0,
            offset: 0,
        })
    }

    /// Ends the payload. Resolved regions stay for the next payload, which most often needs the
    /// same ones. Deregistration does not wait for that: it releases the memory at once, and the
    /// next payload finds that the region is gone.
    pub(crate) fn clear(&mut self) {
        self.inline = false;
        (self.count, self.at, self.offset) = (0, 0, 0);
    }

    /// Makes `data` the payload, at most [`MAX_INLINE`] bytes.
    pub(crate) fn set_inline(&mut self, data: &[u8]) {
        self.clear();
        self.inline = true;
        for (to, from) in self.data.iter_mut().zip(data) {
            *to = *from;
        }
    }

    /// As [`Self::set_sges`], of one element, as most requests have. Context: any.
    #[inline]
    pub(crate) fn set_sge(
        &mut self,
        regions: &Regions,
        pd: PdId,
        sge: LocalSge,
    ) -> Result<(), MemError> {
        self.clear();
        if sge.length() == 0 {
            return Ok(());
        }
        self.count = 1;
        let piece = &mut self.first;
        let (cached, range) = (&mut piece.resolved, (sge.addr(), sge.length()));
        regions.resolve_cached(cached, sge.lkey(), pd, range, Access::LOCAL_READ)?;
        piece.sge = sge;
        Ok(())
    }

    /// Makes the memory that `sges` name the payload, and checks key, domain and bounds of each
    /// element. The key of an element without bytes is not checked. Elements that continue each
    /// other, as the pages of a list often do, become one piece: that is one look-up and one copy.
    /// Context: any.
    #[inline(never)]
    pub(crate) fn set_sges(
        &mut self,
        regions: &Regions,
        pd: PdId,
        sges: impl Iterator<Item = LocalSge>,
    ) -> Result<(), MemError> {
        self.clear();
        let mut named = sges.filter(|sge| sge.length() != 0).peekable();
        let joined = core::iter::from_fn(|| {
            let mut sge = named.next()?;
            while let Some(both) = named.peek().and_then(|next| sge.join(next)) {
                sge = both;
                named.next();
            }
            Some(sge)
        });
        let pieces = Iterator::chain(core::iter::once(&mut self.first), &mut self.more);
        for (piece, sge) in pieces.zip(joined) {
            self.count += 1;
            let (cached, range) = (&mut piece.resolved, (sge.addr(), sge.length()));
            regions.resolve_cached(cached, sge.lkey(), pd, range, Access::LOCAL_READ)?;
            piece.sge = sge;
        }
        Ok(())
    }

    /// Makes `len` bytes at `addr` of a resolved region the payload: the answer to a Read.
    pub(crate) fn set_resolved(&mut self, resolved: Option<ResolvedMr>, addr: u64, len: u32) {
        self.clear();
        self.count = 1;
        self.first = Piece {
            resolved,
            // The key is in `resolved`. These are numbers of the peer.
            sge: LocalSge::new(addr, len, 0),
        };
    }

    /// The position of the next byte.
    pub(crate) fn position(&self) -> Position {
        Position(self.at, self.offset)
    }

    /// Goes to another position: an earlier one, or one of [`Self::reader`].
    pub(crate) fn seek(&mut self, p: Position) {
        (self.at, self.offset) = (p.0, p.1);
    }

    /// A reader of the next `len` bytes of the payload, and the position behind them, to which the
    /// caller [seeks](Self::seek) when it has read them. `None` if they are not in one piece, or
    /// not in memory that has readers ([`ResolvedMr::reader`]). Context: any. Errors: of that
    /// function.
    #[inline]
    pub(crate) fn reader<'a>(
        &'a self,
        access: &'a mut HeldAccess,
        len: usize,
    ) -> Result<Option<(Reader<'a>, Position)>, MemError> {
        let piece = self.piece().filter(|_| !self.inline);
        let Some((piece, resolved)) = piece.and_then(|p| Some((p, p.resolved.as_ref()?))) else {
            return Ok(None);
        };
        let left = piece.sge.length().saturating_sub(self.offset) as usize;
        if len > left {
            return Ok(None);
        }
        let end = if len == left {
            Position(self.at + 1, 0)
        } else {
            Position(self.at, self.offset + len as u32)
        };
        let reader = resolved.reader(access, &piece.sge, self.offset, len)?;
        Ok(reader.map(|reader| (reader, end)))
    }

    /// The next bytes of the payload, up to `most`, as memory that TCP can refer to; goes on behind
    /// them. `None` if they have to be copied. Context: any. Errors: of [`ResolvedMr::page`].
    pub(crate) fn refer(&mut self, most: usize) -> Result<Option<PageSpan>, MemError> {
        let piece = self.piece().filter(|_| !self.inline);
        let Some((piece, resolved)) = piece.and_then(|p| Some((p, p.resolved.as_ref()?))) else {
            return Ok(None);
        };
        let left = piece.sge.length().saturating_sub(self.offset) as usize;
        let page = resolved.page(&piece.sge, self.offset, left.min(most))?;
        if let Some(page) = &page {
            self.skip(page.len());
        }
        Ok(page)
    }

    /// Goes on by `n` bytes.
    pub(crate) fn skip(&mut self, mut n: usize) {
        while let Some(piece) = self.piece().filter(|_| n > 0) {
            let left = piece.sge.length().saturating_sub(self.offset) as usize;
            if n < left {
                self.offset += n as u32;
                return;
            }
            n -= left;
            (self.at, self.offset) = (self.at + 1, 0);
        }
    }

    /// The piece that the next byte comes from.
    #[inline]
    fn piece(&self) -> Option<&Piece> {
        if self.at == 0 && self.count != 0 {
            Some(&self.first)
        } else {
            self.further_piece()
        }
    }

    #[inline(never)]
    fn further_piece(&self) -> Option<&Piece> {
        let at = self.at.checked_sub(1).filter(|_| self.at < self.count)?;
        self.more.get(at)
    }

    /// Copies the next bytes of the payload to `dst`, which it fills. Context: any.
    ///
    /// # Errors
    ///
    /// If a region is no longer valid, or the rest of the payload is shorter than `dst`.
    pub(crate) fn copy_to(
        &mut self,
        access: &mut HeldAccess,
        mut dst: &mut [u8],
    ) -> Result<(), MemError> {
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
            let piece = self.piece().ok_or(MemError::Bounds)?;
            let resolved = piece.resolved.as_ref().ok_or(MemError::Bounds)?;
            let len = piece.sge.length();
            let n = dst.len().min((len - self.offset) as usize);
            let (head, tail) = dst.split_at_mut(n);
            resolved.read(access, &piece.sge, self.offset, head)?;
            dst = tail;
            self.offset += n as u32;
            if self.offset == len {
                self.at += 1;
                self.offset = 0;
            }
        }
        Ok(())
    }
}
