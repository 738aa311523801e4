// SPDX-License-Identifier: GPL-2.0

//! Scatter: the sink of a message that rx places.
//!
//! Segments of a message may start at any offset in it, so the sink is addressed, not a stream;
//! the position of the last segment is remembered because the next one nearly always follows.

use super::{Access, Grant, MemError, Regions};
use crate::{
    abi::{Rqe, MAX_SGE},
    pd::PdId,
};

struct Piece {
    /// `None` until the first byte for this element arrives: a receive's keys are looked up only
    /// when needed, and once.
    grant: Option<Grant>,
    lkey: u32,
    addr: u64,
    /// Offset of the piece's first byte in the message.
    start: u32,
    len: u32,
}

/// The buffers of one receive request.
pub(crate) struct Scatter {
    pieces: [Option<Piece>; MAX_SGE],
    len: u32,
    at: usize,
}

impl Scatter {
    /// The buffers that `rqe`, a private copy, names; `None` if it has more than `max_sge`
    /// elements, or more bytes than a message can have. Keys are not looked up yet.
    pub(crate) fn of_receive(rqe: &Rqe, max_sge: u32) -> Option<Self> {
        if u32::from(rqe.num_sge) > max_sge {
            return None;
        }
        let sges = rqe.sge.get(..usize::from(rqe.num_sge))?;
        let mut pieces = [const { None }; MAX_SGE];
        let mut len = 0u32;
        let named = sges.iter().filter(|s| s.length != 0);
        for (slot, sge) in pieces.iter_mut().zip(named) {
            *slot = Some(Piece {
                grant: None,
                lkey: sge.lkey,
                addr: sge.addr,
                start: len,
                len: sge.length,
            });
            len = len.checked_add(sge.length)?;
        }
        Some(Self { pieces, len, at: 0 })
    }

    /// No buffers at all.
    pub(crate) const fn empty() -> Self {
        Self {
            pieces: [const { None }; MAX_SGE],
            len: 0,
            at: 0,
        }
    }

    /// Bytes that the buffers have room for.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Places `data` at `offset` of the message.
    pub(crate) fn write(
        &mut self,
        regions: &Regions,
        pd: PdId,
        mut offset: u32,
        mut data: &[u8],
    ) -> Result<(), MemError> {
        while !data.is_empty() {
            let piece = self.seek(offset)?;
            let inside = offset - piece.start;
            let n = data.len().min((piece.len - inside) as usize);
            let (head, tail) = data.split_at(n);
            let grant = match &piece.grant {
                Some(g) => g,
                None => piece.grant.insert(regions.get(
                    piece.lkey,
                    pd,
                    piece.addr,
                    piece.len,
                    Access::LOCAL_WRITE,
                )?),
            };
            grant.write(piece.addr.wrapping_add(u64::from(inside)), head)?;
            data = tail;
            offset += n as u32;
        }
        Ok(())
    }

    /// The piece that holds `offset`.
    fn seek(&mut self, offset: u32) -> Result<&mut Piece, MemError> {
        let holds = |p: &Option<Piece>| {
            p.as_ref()
                .is_some_and(|p| offset >= p.start && offset - p.start < p.len)
        };
        if !self.pieces.get(self.at).is_some_and(holds) {
            self.at = self.pieces.iter().position(holds).ok_or(MemError::Bounds)?;
        }
        self.pieces[self.at].as_mut().ok_or(MemError::Bounds)
    }
}
