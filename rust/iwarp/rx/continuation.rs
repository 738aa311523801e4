// SPDX-License-Identifier: GPL-2.0

//! FPDUs that continue the one before.
//!
//! A long message comes as many segments. All but the last are of one size, and the header of each
//! is that of the one before with a higher offset. Such an FPDU needs none of the checks that its
//! equal fields have passed: this compares its header with the one that must come, and has the
//! payload placed by a single call of the handler. Whatever is not as expected is left to the
//! receiver's usual way, which finds the fault, if there is one.

use super::fault::Reason;
use super::receiver::Receiver;
use super::Handler;
use crate::bytes::Fields;
use crate::ddp;
use crate::mpa::fpdu::{
    crc_field, header_len, payload_len, split_crc, ulpdu_len, CRC_INIT, LENGTH_LEN, TAGGED_HDR,
    UNTAGGED_HDR,
};
use crate::rdmap::Opcode;
use crate::types::SharedByte;

/// Where the offset of a segment is in ULPDU Length and DDP header.
const TO_AT: usize = LENGTH_LEN + ddp::TO_AT;
const MO_AT: usize = LENGTH_LEN + ddp::MO_AT;

impl Receiver {
    /// Receives the FPDUs at the front of `rest` that continue the last one and are there in whole.
    /// Stops at the first that is not; what was read of its header counts as gathered. Errors: as
    /// of [`receive`](Receiver::receive).
    ///
    /// The message of the last FPDU must [go on](Receiver::continues), and nothing of the next
    /// header must have been gathered.
    #[inline(never)]
    pub(super) fn receive_continuations<H: Handler>(
        &mut self,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> Result<(), Reason> {
        let Some(segment) = self.segment else {
            return Ok(());
        };
        // A loop for each opcode that makes a difference, so that none is looked at for each FPDU.
        const WRITE: Opcode = Opcode::Write;
        const READ: Opcode = Opcode::ReadResponse;
        const SEND: Opcode = Opcode::Send;
        match segment.opcode {
            WRITE => while self.continue_by::<TAGGED_HDR, H>(WRITE, rest, h)? {},
            READ => while self.continue_by::<TAGGED_HDR, H>(READ, rest, h)? {},
            _ => while self.continue_by::<UNTAGGED_HDR, H>(SEND, rest, h)? {},
        }
        Ok(())
    }

    /// Receives the FPDU at the front of `rest`, if it continues the last one, whose header had `N`
    /// bytes, and is there in whole. Returns whether it has done so. If not, at most the header
    /// was read, and counts as gathered.
    #[inline(always)]
    fn continue_by<const N: usize, H: Handler>(
        &mut self,
        opcode: Opcode,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> Result<bool, Reason> {
        // The last FPDU's, whose header has passed all checks.
        let len = payload_len(ulpdu_len(&self.hdr), N);
        let Some(hdr) = next_header(&self.hdr, opcode, len) else {
            return Ok(false);
        };
        let covered = N.saturating_add(len as usize + usize::from(self.pad));
        let Some((fpdu, field, behind)) = split_crc(rest, covered) else {
            return Ok(false);
        };
        let Some((front, body)) = fpdu.split_first_chunk::<N>() else {
            return Ok(false);
        };
        let Some(payload) = body.get(..len as usize) else {
            return Ok(false);
        };
        // Empty segments of a Send are for the handler to see one by one.
        if payload.is_empty() {
            return Ok(false);
        }
        let copy = h.load(front);
        let (true, Some(end)) = (
            hdr.first_chunk() == Some(&copy),
            self.rules.continued(opcode, len),
        ) else {
            self.take_header(copy, rest);
            return Ok(false);
        };
        self.hdr = hdr;
        if self.crc_on {
            let hdr = self.hdr.get(..N).unwrap_or_default();
            let crc = h.crc32c(CRC_INIT, hdr);
            if crc_field(h.crc32c_shared(crc, body)) != h.load(field) {
                self.verified = true;
                return Err(Reason::CrcMismatch);
            }
        }
        if !h.place_next(payload) {
            self.verified = true;
            self.take_header(copy, rest);
            return Ok(false);
        }
        self.rules.advance(opcode, end);
        self.fpdus = self.fpdus.wrapping_add(1);
        *rest = behind;
        Ok(true)
    }

    /// Takes the header at the front of `rest`, or as much of it as `copy` has, which are bytes
    /// from there. These are not read again.
    #[inline]
    fn take_header<const N: usize>(&mut self, copy: [u8; N], rest: &mut &[SharedByte]) {
        if let Some(hdr) = self.hdr.first_chunk_mut() {
            *hdr = copy;
        }
        let n = header_len(N, &self.hdr).min(N);
        self.have = n as u8;
        *rest = rest.get(n..).unwrap_or_default();
    }
}

/// ULPDU Length and DDP header of the segment that continues the one with `hdr`, of `len` bytes,
/// and is as long. `None` if its offsets would wrap.
#[inline]
fn next_header(hdr: &[u8; UNTAGGED_HDR], opcode: Opcode, len: u32) -> Option<[u8; UNTAGGED_HDR]> {
    let mut next = *hdr;
    if opcode.is_tagged() {
        let to = hdr.be64::<TO_AT>().checked_add(len.into())?;
        to.checked_add(len.into())?;
        next.put_be64::<TO_AT>(to);
    } else {
        next.put_be32::<MO_AT>(hdr.be32::<MO_AT>().checked_add(len)?);
    }
    Some(next)
}
