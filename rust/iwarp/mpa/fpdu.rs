// SPDX-License-Identifier: GPL-2.0

//! The fields and sizes of an FPDU (RFC 5044 s4): length field, pad, CRC, markers, MULPDU.
//! [`Framer`](crate::tx::Framer) writes FPDUs, its child `markers` puts the markers in;
//! [`Receiver`](crate::rx::Receiver) takes FPDUs apart.

use crate::types::{MAX_ULPDU, MIN_MULPDU};

/// Bytes of the ULPDU Length field.
pub const LENGTH_LEN: usize = 2;
/// Bytes of the CRC field.
pub const CRC_LEN: usize = 4;
/// Bytes of a marker.
pub const MARKER_LEN: usize = 4;
/// Bytes of the stream from the start of one marker to the start of the next (RFC 5044 s4.3).
pub const MARKER_INTERVAL: u16 = 512;

/// Value with which the CRC32c register starts.
///
/// RFC 5044 s4.4: the CRC is computed "in the manner described in the iSCSI Protocol document for
/// Header and Data Digests", that is: preset to ones, inverted at the end.
pub const CRC_INIT: u32 = !0;

//= 5044-4.4-8: the MPA FPDU MUST be computed using the CRC32c
/// The CRC field for the final value of the CRC32c register.
///
/// With iSCSI's bit order the bytes of the field are those of the inverted register, least
/// significant first; Figures 5 and 6 of RFC 5044 show the same.
#[inline]
pub const fn crc_field(register: u32) -> [u8; CRC_LEN] {
    (!register).to_le_bytes()
}

/// Bytes of pad after a ULPDU, 0 to 3.
///
/// RFC 5044 s4.1: "The length of the pad is set so as to make the size of the FPDU an integral
/// multiple of four."
#[inline]
pub const fn pad_len(ulpdu: u16) -> u8 {
    // The length field has two bytes. Length, ULPDU and pad together are a multiple of four.
    (2u16.wrapping_sub(ulpdu) & 3) as u8
}

/// Bytes of the FPDU that contains a ULPDU of this length, without markers.
#[inline]
pub const fn fpdu_len(ulpdu: u16) -> usize {
    LENGTH_LEN + ulpdu as usize + pad_len(ulpdu) as usize + CRC_LEN
}

//= 5041-3-2: LLPs MUST expose MULPDU and MULPDU changes.
//= 5044-3-2: MPA MUST provide information to DDP on the current
//= 5044-3-3: The range of MULPDU values MUST be between 128 octets and
//= 5044-4.5-1: Markers are present MUST be computed as:
//= 5044-4.5-2: are NOT present MUST be computed as:
//= 5044-4.5-3: on TCP sender MUST NOT shrink the MULPDU below
//= 5044-4.5-4: 128 octets, MPA MUST NOT provide a MULPDU smaller than 128.
/// The MULPDU for a TCP connection that sends segments of up to `emss` bytes: how long a ULPDU may
/// be for its FPDU to fit one segment.
///
/// RFC 5044 s4.5: with markers "MULPDU = EMSS - (6 + 4 * Ceiling(EMSS / 512) + EMSS mod 4)",
/// without "MULPDU = EMSS - (6 + EMSS mod 4)"; not below 128 and not above 64768 (s3). An FPDU with
/// a ULPDU of exactly this length has no pad.
pub const fn mulpdu(emss: u32, markers: bool) -> u16 {
    let overhead = (LENGTH_LEN + CRC_LEN) as u32
        + if markers {
            MARKER_LEN as u32 * emss.div_ceil(MARKER_INTERVAL as u32)
        } else {
            0
        }
        + emss % 4;
    let ulpdu = emss.saturating_sub(overhead);
    if ulpdu < MIN_MULPDU as u32 {
        MIN_MULPDU
    } else if ulpdu > MAX_ULPDU as u32 {
        MAX_ULPDU
    } else {
        ulpdu as u16
    }
}
