// SPDX-License-Identifier: GPL-2.0

//! Whole FPDUs from a stream that comes in pieces.

use super::{Fault, Handler, Receiver};
use crate::mpa::fpdu::{fpdu_len, LENGTH_LEN};

/// Puts FPDUs together that come in pieces. So a [`Receiver`] gets whole ones only, and places
/// nothing of an FPDU before it has verified the CRC (RFC 5044 s6).
///
/// FPDUs that are whole in the received data are passed on in place. The others cost a copy to `B`,
/// a buffer of at least [`MAX_FPDU`](FpduAssembler::MAX_FPDU) octets.
#[derive(Debug)]
pub struct FpduAssembler<B> {
    buf: B,
    /// Octets of the FPDU under way that are in `buf`; 0 between FPDUs, and while they are passed
    /// on in place.
    have: usize,
    /// How many octets of `buf` the receiver has taken. Fewer than `have` only while the FPDU
    /// waits.
    taken: usize,
}

impl FpduAssembler<()> {
    /// Octets of the longest FPDU that a length field can announce.
    pub const MAX_FPDU: usize = fpdu_len(u16::MAX);
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> FpduAssembler<B> {
    /// Makes an assembler before the first FPDU. `None` if `buf` is too short.
    pub fn new(buf: B) -> Option<Self> {
        (buf.as_ref().len() >= FpduAssembler::MAX_FPDU).then_some(Self {
            buf,
            have: 0,
            taken: 0,
        })
    }

    /// As [`Receiver::receive`] of `rx`, which must get no octets otherwise.
    pub fn receive<H: Handler>(
        &mut self,
        rx: &mut Receiver,
        data: &[u8],
        h: &mut H,
    ) -> Result<usize, Fault> {
        let mut rest = data;
        loop {
            if self.have == 0 {
                // An FPDU that waited was verified whole, so its rest needs no copy.
                let begun = rx.left_of_fpdu().min(rest.len());
                let behind = rest.get(begun..).unwrap_or_default();
                let (whole, part) = rest
                    .split_at_checked(begun.saturating_add(whole_len(behind)))
                    .unwrap_or((&[], rest));
                let taken = rx.receive(whole, h)?;
                if taken < whole.len() {
                    return Ok(data.len().saturating_sub(rest.len()).saturating_add(taken));
                }
                rest = part;
                if rest.is_empty() {
                    return Ok(data.len());
                }
            }
            if !self.gather(&mut rest) {
                return Ok(data.len());
            }
            let fpdu = self.buf.as_ref().get(self.taken..self.have);
            self.taken = self
                .taken
                .saturating_add(rx.receive(fpdu.unwrap_or_default(), h)?);
            if self.taken < self.have {
                // The FPDU waits in `buf`.
                return Ok(data.len().saturating_sub(rest.len()));
            }
            (self.have, self.taken) = (0, 0);
        }
    }

    /// Whether the stream is between FPDUs, as far as this has octets of it.
    pub fn at_boundary(&self) -> bool {
        self.have == 0
    }

    /// Moves octets of the FPDU under way from `rest` to the buffer; true once it is whole.
    fn gather(&mut self, rest: &mut &[u8]) -> bool {
        // First its length field, then the other octets that this announces.
        while let want @ 1.. = missing(self.buf.as_ref(), self.have) {
            let (chunk, behind) = rest.split_at_checked(want).unwrap_or((*rest, &[]));
            let room = self.buf.as_mut().get_mut(self.have..);
            let Some(room) = room.and_then(|room| room.get_mut(..chunk.len())) else {
                return false;
            };
            room.copy_from_slice(chunk);
            self.have = self.have.saturating_add(chunk.len());
            *rest = behind;
            if chunk.len() < want {
                return false;
            }
        }
        true
    }
}

/// Octets that are missing of an FPDU, or of its length field, after the first `have` of `buf`.
fn missing(buf: &[u8], have: usize) -> usize {
    let need = match buf.first_chunk::<LENGTH_LEN>() {
        Some(len) if have >= LENGTH_LEN => fpdu_len(u16::from_be_bytes(*len)),
        _ => LENGTH_LEN,
    };
    need.saturating_sub(have)
}

/// Octets of the whole FPDUs at the front of `data`.
fn whole_len(data: &[u8]) -> usize {
    let mut rest = data;
    while let Some(len) = rest.first_chunk::<LENGTH_LEN>() {
        match rest.get(fpdu_len(u16::from_be_bytes(*len))..) {
            Some(behind) => rest = behind,
            None => break,
        }
    }
    data.len().saturating_sub(rest.len())
}
