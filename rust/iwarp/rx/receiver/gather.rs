// SPDX-License-Identifier: GPL-2.0

//! Gathers what an FPDU has beside payload: ULPDU Length and DDP header, the headers that messages
//! have as their payload, and the trailer. Each byte is read once, as others may change it.

use super::Receiver;
use crate::mpa::fpdu::{header_len, trailer_len, CRC_LEN, UNTAGGED_HDR};
use crate::rdmap::Opcode;
use crate::rx::Handler;
use crate::types::SharedByte;

impl Receiver {
    /// Collects ULPDU Length and DDP header; returns how many bytes they have.
    #[inline]
    pub(super) fn gather_header<H: Handler>(
        &mut self,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> Option<usize> {
        if self.have == 0 {
            if let Some((hdr, _)) = rest.split_first_chunk() {
                self.hdr = h.load(hdr);
                let n = header_len(UNTAGGED_HDR, &self.hdr);
                *rest = rest.get(n..)?;
                return Some(n);
            }
        }
        if rest.is_empty() {
            return None;
        }
        self.gather_header_slowly(rest, h)
    }

    /// As [`gather_header`](Self::gather_header), for a header that comes in pieces.
    #[cold]
    fn gather_header_slowly<H: Handler>(
        &mut self,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> Option<usize> {
        loop {
            let have = usize::from(self.have);
            let n = header_len(have, &self.hdr);
            if have >= n {
                self.have = 0;
                return Some(n);
            }
            let part = self.hdr.get_mut(have..n)?;
            let chunk = take(rest, part.len() as u32)?;
            self.have = self.have.saturating_add(copy_front(part, chunk, h) as u8);
        }
    }

    /// Copies bytes of a header that an `opcode` message has as its payload, which begin `from`
    /// bytes in, and takes the CRC of the copy. Bytes that a later revision may append to a
    /// Terminate are not kept.
    pub(super) fn gather_body<H: Handler>(
        &mut self,
        opcode: Opcode,
        from: usize,
        chunk: &[SharedByte],
        h: &mut H,
    ) {
        let takes_crc = self.takes_crc();
        let room: &mut [u8] = match opcode {
            Opcode::AtomicResponse => &mut self.response,
            _ => &mut self.body,
        };
        let room = room.get_mut(from..).unwrap_or_default();
        let n = copy_front(room, chunk, h);
        if let (true, Some(copy @ [_, ..])) = (takes_crc, room.get(..n)) {
            self.crc = h.crc32c(self.crc, copy);
        }
        if let Some(beyond @ [_, ..]) = chunk.get(n..) {
            self.update_crc(beyond, h);
        }
    }

    /// Takes pad and CRC, and copies them if the CRC was not verified; returns whether they are
    /// complete.
    #[inline]
    pub(super) fn gather_trailer<H: Handler>(
        &mut self,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> bool {
        let n = trailer_len(self.pad);
        if self.have == 0 && !self.takes_crc() {
            if let Some(behind) = rest.get(n..) {
                *rest = behind;
                return true;
            }
        } else if self.have == 0 && self.pad == 0 {
            // As of Read Requests, atomic operations and their responses.
            let field = self.trailer.first_chunk_mut();
            if let (Some(field), Some((crc, behind))) = (field, rest.split_first_chunk()) {
                let field: &mut [u8; CRC_LEN] = field;
                *field = h.load(crc);
                *rest = behind;
                return true;
            }
        }
        self.gather_trailer_slowly(n, rest, h)
    }

    /// As [`gather_trailer`](Self::gather_trailer), of `n` bytes that are copied or come in
    /// pieces.
    #[inline(never)]
    fn gather_trailer_slowly<H: Handler>(
        &mut self,
        n: usize,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> bool {
        let have = usize::from(self.have);
        let Some(chunk) = take(rest, n.saturating_sub(have) as u32) else {
            return false;
        };
        if self.takes_crc() {
            copy_front(self.trailer.get_mut(have..).unwrap_or_default(), chunk, h);
        }
        let have = have.saturating_add(chunk.len());
        self.have = if have < n { have as u8 } else { 0 };
        have >= n
    }
}

/// Splits at most `n` bytes off the front of `rest`, `None` if it is empty.
#[inline]
pub(super) fn take<'a>(rest: &mut &'a [SharedByte], n: u32) -> Option<&'a [SharedByte]> {
    if rest.is_empty() {
        return None;
    }
    let (chunk, r) = match rest.split_at_checked(n as usize) {
        Some(parts) => parts,
        None => (*rest, &[] as &[SharedByte]),
    };
    *rest = r;
    Some(chunk)
}

/// Copies as much of `src` as `dst` has room for to its front; returns how much that is.
#[inline]
fn copy_front<H: Handler>(dst: &mut [u8], src: &[SharedByte], h: &mut H) -> usize {
    let n = copy_words::<8, H>(dst, src, 0, h);
    let n = copy_words::<4, H>(dst, src, n, h);
    copy_words::<1, H>(dst, src, n, h)
}

/// Copies words of `N` bytes from offset `at` on, as many as there are and `dst` has room for;
/// returns the offset behind them.
#[inline]
fn copy_words<const N: usize, H: Handler>(
    dst: &mut [u8],
    src: &[SharedByte],
    mut at: usize,
    h: &mut H,
) -> usize {
    while let (Some(to), Some(from)) = (
        dst.get_mut(at..).and_then(<[u8]>::first_chunk_mut),
        src.get(at..).and_then(<[SharedByte]>::first_chunk::<N>),
    ) {
        *to = h.load(from);
        at = at.saturating_add(N);
    }
    at
}
