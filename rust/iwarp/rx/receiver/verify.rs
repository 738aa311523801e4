// SPDX-License-Identifier: GPL-2.0

//! Verifying FPDUs by their CRC (RFC 5044 s4.4, s6): whole, before anything of them is passed on,
//! or when their trailer has come.

use super::Receiver;
use crate::mpa::fpdu::{crc_field, parse_trailer, split_crc};
use crate::rdmap::Opcode;
use crate::rx::fault::Reason;
use crate::rx::Handler;
use crate::types::SharedByte;

impl Receiver {
    //= 5044-3-6: On receive, MPA MUST pass each ULPDU with its
    //# deviates: an FPDU that lies in several pieces of received packets is placed as it comes,
    //# and delivered when it is verified. With verify_first=1 such FPDUs are put together first
    //= 5044-4.4-10: enabled, the receiver MUST first perform the following:
    //# deviates: as 5044-3-6
    //= 5044-6-1: An MPA receiver MUST first verify the FPDU before
    //# deviates: as 5044-3-6
    //= 5044-6-4: (see Section 4) MUST be used to determine if
    //# deviates: as 5044-3-6
    /// Verifies the CRC of the FPDU under way if all of it is there: `rest` begins after its
    /// header, and the CRC of that is known. Returns false if nothing of the FPDU may be looked at
    /// yet, as it has to come whole.
    ///
    /// RFC 5044 s6: "An MPA receiver MUST first verify the FPDU before passing the ULPDU to DDP."
    /// This costs no more than a CRC that is taken while payload is placed: either is a walk of its
    /// own over the payload.
    ///
    /// If the payload is a header or Immediate Data, nothing of it is placed. Its CRC is that of
    /// the copy which [`payload`](Self::payload) makes.
    #[inline]
    pub(super) fn verify_whole<H: Handler>(
        &mut self,
        rest: &[SharedByte],
        h: &mut H,
    ) -> Result<bool, Reason> {
        let [_, _, _, control, ..] = self.hdr;
        if Opcode::has_header(control) {
            return Ok(true);
        }
        let body = self.left as usize + usize::from(self.pad);
        let Some((body, field, _)) = split_crc(rest, body) else {
            return Ok(!self.only_whole);
        };
        // Good or bad, the rest of this FPDU tells nothing more.
        self.verified = true;
        let crc = if body.is_empty() {
            self.crc
        } else {
            h.crc32c_shared(self.crc, body)
        };
        if crc_field(crc) == h.load(field) {
            Ok(true)
        } else {
            Err(Reason::CrcMismatch)
        }
    }

    /// Whether the CRC of the FPDU under way is taken piece by piece.
    #[inline]
    pub(super) fn takes_crc(&self) -> bool {
        self.crc_on && !self.verified
    }

    /// Adds bytes to the CRC of the FPDU under way.
    pub(super) fn update_crc<H: Handler>(&mut self, chunk: &[SharedByte], h: &mut H) {
        if self.takes_crc() {
            self.crc = h.crc32c_shared(self.crc, chunk);
        }
    }

    //= 5041-3-7: LLP MUST provide a strong digest (at least equivalent
    //= 5044-4.1-3: any value, and MUST NOT be checked.
    //= 5044-4.4-1: An MPA implementation MUST implement CRC support and MUST either:
    //= 5044-4.4-11: If not, the receiver MUST treat the FPDU as an invalid FPDU.
    //= 5044-7.1.1-12: the CRC field MUST be considered valid for FPDU
    //= 5044-3-6, 5044-4.1-2, 5044-4.4-6, 5044-4.4-10, 5044-6-2, 5044-6-4, 5044-7.1.1-10
    /// Verifies the FPDU whose trailer has come, unless that was done before.
    #[inline]
    pub(super) fn verify_trailer<H: Handler>(&self, h: &mut H) -> Result<(), Reason> {
        // RFC 5044 s4.1: "When CRCs are not enabled, this field is still present, may contain any
        // value, and MUST NOT be checked."
        if !self.takes_crc() {
            return Ok(());
        }
        // "The pad data MUST be [...] ignored by the receiver (except for CRC checking)."
        let (pad, field) = parse_trailer(&self.trailer, self.pad);
        let crc = if pad.is_empty() {
            self.crc
        } else {
            h.crc32c(self.crc, pad)
        };
        if crc_field(crc) == field {
            Ok(())
        } else {
            Err(Reason::CrcMismatch)
        }
    }
}
