// SPDX-License-Identifier: GPL-2.0

//! An MPA receiver for whole streams, written from RFC 5044 s4 without regard to speed.

use crate::crc32c;

/// Describes what is wrong with a stream.
pub type Wrong = String;

/// Splits a stream into ULPDUs, and checks lengths, pad, CRCs and markers.
///
/// It handles markers in the reverse order of a sender: first it finds the FPDUs in the stream
/// without markers. Then it checks for each marker (every 512th byte) that it points to the FPDU
/// that contains it.
pub fn ulpdus(stream: &[u8], crc: bool, markers: bool) -> Result<Vec<Vec<u8>>, Wrong> {
    // The positions of the bytes that belong to no marker.
    let data: Vec<usize> = (0..stream.len())
        .filter(|at| !markers || at % 512 >= 4)
        .collect();
    let byte = |i: usize| -> Result<u8, Wrong> {
        let at = *data.get(i).ok_or("stream ends within an FPDU")?;
        Ok(stream[at])
    };

    let mut found = Vec::new();
    // Start and end of each FPDU in the stream, without a marker in front of it.
    let mut extents = Vec::new();
    let mut i = 0;
    while i < data.len() {
        let start = i;
        let len = usize::from(u16::from_be_bytes([byte(i)?, byte(i + 1)?]));
        i += 2;
        let ulpdu: Vec<u8> = (i..i + len).map(byte).collect::<Result<_, _>>()?;
        i += len;
        while (i - start) % 4 != 0 {
            if byte(i)? != 0 {
                return Err("pad is not zero".into());
            }
            i += 1;
        }
        let field: Vec<u8> = (i..i + 4).map(byte).collect::<Result<_, _>>()?;
        i += 4;
        if data[i - 1] - data[i - 4] != 3 {
            return Err("marker within CRC field".into());
        }
        extents.push((data[start], data[i - 1] + 1));

        if crc {
            // The CRC covers a marker right in front of the length field.
            let mut from = data[start];
            if markers && from % 512 == 4 {
                from -= 4;
            }
            let expected = !crc32c(!0, &stream[from..data[i - 4]]);
            if field != expected.to_le_bytes() {
                return Err(format!("CRC of FPDU at {from}"));
            }
        }
        found.push(ulpdu);
    }

    if markers {
        for at in (0..stream.len()).step_by(512) {
            let marker = stream
                .get(at..at + 4)
                .ok_or("stream ends within a marker")?;
            // Either within an FPDU, or in front of one.
            let pointer = match extents.iter().find(|(s, e)| *s < at && at < *e) {
                Some((start, _)) => at - start,
                None if extents.iter().any(|(s, _)| *s == at + 4) => 0,
                None => return Err(format!("marker at {at} belongs to no FPDU")),
            };
            if marker[..2] != [0, 0] || marker[2..] != (pointer as u16).to_be_bytes() {
                return Err(format!("marker at {at}: {marker:?}, FPDU is at -{pointer}"));
            }
        }
    }
    Ok(found)
}

/// A DDP segment, parsed independently of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// L flag.
    pub last: bool,
    /// RDMAP Control Field.
    pub control: u8,
    /// STag and TO, or Invalidate STag, QN, MSN and MO.
    pub address: Address,
    /// The bytes after the header.
    pub payload: Vec<u8>,
}

/// The address in a segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Tagged.
    Tagged {
        /// STag.
        stag: u32,
        /// Tagged Offset.
        to: u64,
    },
    /// Untagged.
    Untagged {
        /// Invalidate STag.
        invalidate: u32,
        /// Queue Number.
        qn: u32,
        /// Message Sequence Number.
        msn: u32,
        /// Message Offset.
        mo: u32,
    },
}

/// Parses a ULPDU.
pub fn segment(ulpdu: &[u8]) -> Result<Segment, Wrong> {
    let be = |range: core::ops::Range<usize>| -> Result<u64, Wrong> {
        let bytes = ulpdu.get(range).ok_or("ULPDU too short")?;
        Ok(bytes.iter().fold(0, |v, b| (v << 8) | u64::from(*b)))
    };
    let ddp = be(0..1)? as u8;
    if ddp & 0x3f != 1 {
        return Err(format!("DDP control {ddp:#x}"));
    }
    let (address, header) = if ddp & 0x80 != 0 {
        let (stag, to) = (be(2..6)? as u32, be(6..14)?);
        (Address::Tagged { stag, to }, 14)
    } else {
        let address = Address::Untagged {
            invalidate: be(2..6)? as u32,
            qn: be(6..10)? as u32,
            msn: be(10..14)? as u32,
            mo: be(14..18)? as u32,
        };
        (address, 18)
    };
    Ok(Segment {
        last: ddp & 0x40 != 0,
        control: be(1..2)? as u8,
        address,
        payload: ulpdu[header..].to_vec(),
    })
}
