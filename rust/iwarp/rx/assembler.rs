// SPDX-License-Identifier: GPL-2.0

//! Whole FPDUs from a stream that comes in pieces.

use super::{Fault, Handler, Receiver};
use crate::mpa::fpdu::fpdu_len;
use crate::types::SharedByte;

/// Puts FPDUs together that come in pieces, if CRCs are on. So a [`Receiver`] gets whole ones only,
/// and places nothing of an FPDU before it has verified the CRC (RFC 5044 s6).
///
/// FPDUs that are whole in the received data are passed on in place. Of the others what follows the
/// header is copied to `B`, a buffer of at least [`MAX_FPDU`](FpduAssembler::MAX_FPDU) bytes.
#[derive(Debug)]
pub struct FpduAssembler<B> {
    buf: B,
    /// Bytes of the FPDU under way that are in `buf`; 0 between FPDUs, and while they are passed
    /// on in place.
    have: usize,
}

impl FpduAssembler<()> {
    /// Bytes of the longest FPDU that a length field can announce.
    pub const MAX_FPDU: usize = fpdu_len(u16::MAX);
}

impl<B: AsRef<[SharedByte]>> FpduAssembler<B> {
    /// Makes an assembler before the first FPDU. `None` if `buf` is too short.
    pub fn new(buf: B) -> Option<Self> {
        (buf.as_ref().len() >= FpduAssembler::MAX_FPDU).then_some(Self { buf, have: 0 })
    }

    //= 5044-3-6, 5044-4.4-10, 5044-6-1
    /// As [`Receiver::receive`] of `rx`, which must get no bytes otherwise.
    pub fn receive<H: Handler>(
        &mut self,
        rx: &mut Receiver,
        data: &[SharedByte],
        h: &mut H,
    ) -> Result<usize, Fault> {
        let mut rest = data;
        rx.only_whole = true;
        loop {
            if self.have == 0 {
                let taken = rx.receive(rest, h)?;
                rest = rest.get(taken..).unwrap_or_default();
                if !rx.wants_whole() {
                    break;
                }
            }
            if !self.gather(rx.left_of_fpdu(), &mut rest, h) {
                break;
            }
            let fpdu = self.buf.as_ref().get(..self.have).unwrap_or_default();
            if rx.receive(fpdu, h)? < fpdu.len() {
                // The FPDU waits in `buf`.
                break;
            }
            self.have = 0;
        }
        Ok(data.len().saturating_sub(rest.len()))
    }

    //= 5044-6-4
    /// Moves bytes of the FPDU under way from `rest` to the buffer; true once it has `n` of them.
    fn gather<H: Handler>(&mut self, n: usize, rest: &mut &[SharedByte], h: &mut H) -> bool {
        let missing = n.saturating_sub(self.have);
        let (chunk, behind) = rest.split_at_checked(missing).unwrap_or((*rest, &[]));
        let room = self.buf.as_ref().get(self.have..);
        let Some(room) = room.and_then(|room| room.get(..chunk.len())) else {
            return false;
        };
        h.copy(room, chunk);
        self.have = self.have.saturating_add(chunk.len());
        *rest = behind;
        chunk.len() == missing
    }
}
