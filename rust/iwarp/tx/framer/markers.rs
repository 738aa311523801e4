// SPDX-License-Identifier: GPL-2.0

//! Markers in the stream that is sent (RFC 5044 s4.2 and s4.3), for peers that ask for them. This
//! end asks for none, so the receiver knows none.

use super::{Framer, BETWEEN_MARKERS};
use crate::{
    mpa::fpdu::{crc_field, pad, CRC_INIT, CRC_LEN, MARKER_LEN},
    tx::{Segment, Sink},
};

impl Framer {
    //= 5044-4.3-1: All MPA senders MUST be able to generate Markers
    //= 5044-4.3-2: enabled, MPA senders MUST insert a Marker into the
    //= 5044-4.3-5: the Marker MUST be included in the CRC calculation
    //= 5044-7.1.1-9: When '1' Markers MUST be added as described in
    //= 5044-4.3-7, 5044-4.4-9
    /// As [`write`](Self::write), cutting the FPDU where markers are due.
    #[cold]
    pub(super) fn write_with_markers<S: Sink>(
        &mut self,
        seg: &Segment,
        out: &mut S,
    ) -> Result<(), S::Error> {
        let mut w = Marked {
            crc: self.crc.then_some(CRC_INIT),
            to_marker: self.to_marker,
            fpduptr: 0,
            out,
        };
        // RFC 5044 s4.3: "An FPDUPTR value of 0x0000 is a special case -- it is used when the
        // Marker falls exactly between FPDUs [...]. In this case, the Marker is considered to be
        // contained in the following FPDU". It is not counted by later markers of the FPDU, which
        // point to the ULPDU Length field.
        w.marker_if_due()?;
        w.fpduptr = 0;
        w.bytes(seg.header())?;
        w.payload(u32::from(seg.payload_len()))?;
        w.bytes(pad(seg.ulpdu_len()))?;
        // s4.4: "If there is a Marker immediately following the PAD, the Marker is included in the
        // CRC calculation for this FPDU."
        w.marker_if_due()?;
        w.out.put(&crc_field(w.crc.unwrap_or(CRC_INIT)))?;
        self.to_marker = w.to_marker.saturating_sub(CRC_LEN as u16);
        Ok(())
    }
}

/// One FPDU on its way into a stream with markers.
struct Marked<'a, S: Sink> {
    /// CRC32c register, if CRCs are in use.
    crc: Option<u32>,
    to_marker: u16,
    /// Bytes of the stream since the first of the ULPDU Length field, markers included.
    fpduptr: u16,
    out: &'a mut S,
}

impl<S: Sink> Marked<'_, S> {
    //= 5044-4.2-1: The format of a Marker MUST be as specified in Figure 3:
    //= 5044-4.2-2: The Reserved field MUST be set to zero on
    //= 5044-4.2-3: The least significant two bits MUST always be set to zero
    //= 5044-4.3-3: FPDUPTR MUST contain the number of octets in the
    //= 5044-4.3-8: multiple Markers, they MUST all point to the same
    //= 5044-4.3-9: small), the Marker MUST point to the start of
    fn marker_if_due(&mut self) -> Result<(), S::Error> {
        if self.to_marker != 0 {
            return Ok(());
        }
        // s4.2: "The Reserved field MUST be set to zero on transmit". The FPDUPTR's two low bits
        // are zero as everything in front of a marker is a multiple of four bytes.
        let [a, b] = self.fpduptr.to_be_bytes();
        let marker: [u8; MARKER_LEN] = [0, 0, a, b];
        self.put(&marker)?;
        self.to_marker = BETWEEN_MARKERS;
        Ok(())
    }

    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), S::Error> {
        while !bytes.is_empty() {
            self.marker_if_due()?;
            let n = bytes.len().min(usize::from(self.to_marker));
            let Some((now, later)) = bytes.split_at_checked(n) else {
                break;
            };
            self.put(now)?;
            self.to_marker = self.to_marker.saturating_sub(n as u16);
            bytes = later;
        }
        Ok(())
    }

    fn payload(&mut self, mut len: u32) -> Result<(), S::Error> {
        while len != 0 {
            self.marker_if_due()?;
            let n = len.min(u32::from(self.to_marker));
            let crc = self.out.put_payload(n, self.crc)?;
            self.crc = self.crc.map(|_| crc);
            self.to_marker = self.to_marker.saturating_sub(n as u16);
            // At most 64768 + 22 bytes and 128 markers of 4: no overflow.
            self.fpduptr = self.fpduptr.wrapping_add(n as u16);
            len = len.saturating_sub(n);
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), S::Error> {
        self.crc = self.crc.map(|crc| self.out.crc32c(crc, bytes));
        self.fpduptr = self.fpduptr.wrapping_add(bytes.len() as u16);
        self.out.put(bytes)
    }
}
