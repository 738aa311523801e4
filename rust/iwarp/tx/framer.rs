// SPDX-License-Identifier: GPL-2.0

//! The MPA sender: FPDUs with pad, CRC and markers (RFC 5044 s4).

mod markers;

use super::{Payload, Segment, Sink};
use crate::mpa::fpdu::{
    crc_field, pad, parts_mut, split_crc_mut, with_trailer, write_pad, CRC_INIT, MARKER_INTERVAL,
    MARKER_LEN, TAGGED_HDR, UNTAGGED_HDR,
};

/// Bytes of the stream between the end of one marker and the start of the next.
const BETWEEN_MARKERS: u16 = MARKER_INTERVAL - MARKER_LEN as u16;

/// Outbound half of a stream in Full Operation.
#[derive(Clone, Copy, Debug)]
pub struct Framer {
    crc: bool,
    markers: bool,
    /// Bytes of FPDUs to be sent before the next marker, 0 to 508; a multiple of 4 between FPDUs.
    to_marker: u16,
}

impl Framer {
    //= 5044-4.3-7: the MPA Markers MUST be inserted immediately preceding the
    /// A framer before its first FPDU.
    ///
    /// RFC 5044 s4.3: "the MPA Markers MUST be inserted immediately preceding the first FPDU of
    /// Full Operation Phase, and at every 512th octet of the TCP octet stream thereafter."
    pub const fn new(crc: bool, markers: bool) -> Self {
        Self {
            crc,
            markers,
            to_marker: 0,
        }
    }

    /// Bytes that [`write`](Self::write) would put for this segment next, markers included.
    #[inline]
    pub fn fpdu_len(&self, seg: &Segment) -> usize {
        let len = seg.fpdu_len();
        if !self.markers {
            return len;
        }
        // A marker that is due right behind the CRC comes with the next FPDU, so it does not count.
        let behind = len.saturating_sub(usize::from(self.to_marker));
        len + behind.div_ceil(usize::from(BETWEEN_MARKERS)) * MARKER_LEN
    }

    //= 5044-4.1-1
    /// Writes the FPDU of a segment to `room`, all of it in one piece. Returns false, and has
    /// written nothing, if `room` has not [the FPDU's length](Segment::fpdu_len), or if the stream
    /// has markers. After an error the content of `room` is undefined.
    ///
    /// The CRC is taken of what was written, as the source of the payload may change meanwhile.
    #[inline]
    pub fn write_whole<P: Payload>(
        &self,
        seg: &Segment,
        room: &mut [u8],
        payload: &mut P,
    ) -> Result<bool, P::Error> {
        if self.markers || room.len() != seg.fpdu_len() {
            return Ok(false);
        }
        let Some((covered, field)) = split_crc_mut(room) else {
            return Ok(false);
        };
        let (header, len) = (seg.header(), usize::from(seg.payload_len()));
        let Some((front, bytes, pad)) = parts_mut(covered, header.len(), len) else {
            return Ok(false);
        };
        copy_header(front, header);
        if !bytes.is_empty() {
            payload.copy_to(bytes)?;
        }
        write_pad(pad);
        let crc = if self.crc {
            payload.crc32c(CRC_INIT, covered)
        } else {
            CRC_INIT
        };
        *field = crc_field(crc);
        Ok(true)
    }

    //= 5041-3-4: The LLP MUST ensure that, if it accepts a
    //= 5044-3-1: MPA MUST encapsulate the ULPDU such that there is
    //= 5044-4.1-1: FPDU shown below MUST be used for all MPA FPDUs.
    //= 5044-4.4-7: FPDU, the sender MUST include a CRC field.
    //= 5044-4.4-9: The fields which MUST be included in the CRC
    //= 5044-7.1.1-8: is '0', Markers MUST NOT be added to the
    //= 5044-4.4-1
    /// Writes the FPDU of a segment piece by piece.
    ///
    /// If the sink fails, it has taken a part of the FPDU. If that part can be dropped, the caller
    /// may go on with a copy of the framer made before; otherwise it has to close the stream.
    #[inline]
    pub fn write<S: Sink>(&mut self, seg: &Segment, out: &mut S) -> Result<(), S::Error> {
        if self.markers {
            return self.write_with_markers(seg, out);
        }
        let header = seg.header();
        let mut crc = CRC_INIT;
        if self.crc {
            crc = out.crc32c(crc, header);
        }
        out.put(header)?;
        let payload = u32::from(seg.payload_len());
        if payload != 0 {
            let updated = out.put_payload(payload, self.crc.then_some(crc))?;
            crc = if self.crc { updated } else { crc };
        }
        let pad = pad(seg.ulpdu_len());
        if self.crc && !pad.is_empty() {
            crc = out.crc32c(crc, pad);
        }
        with_trailer(pad.len(), crc, |trailer| out.put(trailer))
    }
}

/// Copies a header of a segment to `to`, which is as long. Those that nearly all segments have are
/// two or three words, for which a call of `memcpy()` costs more than the copy.
#[inline]
fn copy_header(to: &mut [u8], header: &[u8]) {
    if copy_exactly::<TAGGED_HDR>(to, header) || copy_exactly::<UNTAGGED_HDR>(to, header) {
        return;
    }
    to.copy_from_slice(header);
}

/// Copies `from` to `to` if both have `N` bytes.
#[inline(always)]
fn copy_exactly<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    match (<&mut [u8; N]>::try_from(to), <&[u8; N]>::try_from(from)) {
        (Ok(to), Ok(from)) => {
            *to = *from;
            true
        }
        _ => false,
    }
}
