// SPDX-License-Identifier: GPL-2.0

//! The format of an FPDU (RFC 5044 s4), to emit it and to parse it, and its sizes.
//!
//! ```text
//!  ULPDU Length | DDP header | payload | pad    | CRC
//!  2 bytes     | 14 or 18   |         | 0 to 3 | 4 bytes, over all before
//! ```
//!
//! [`Framer`](crate::tx::Framer) writes FPDUs of segments, and its child `markers` puts markers in.
//! [`Receiver`](crate::rx::Receiver) finds FPDUs in the stream and verifies them.

use crate::bytes::Fields;
use crate::ddp::{TAGGED, TAGGED_LEN, UNTAGGED_LEN};
use crate::types::{MAX_ULPDU, MIN_MULPDU};

/// Bytes of the ULPDU Length field.
pub const LENGTH_LEN: usize = 2;
/// Bytes of the CRC field.
pub const CRC_LEN: usize = 4;
/// Bytes of the longest trailer: pad and CRC field.
pub(crate) const TRAILER_MAX: usize = 3 + CRC_LEN;
/// Bytes of ULPDU Length and tagged DDP header.
pub(crate) const TAGGED_HDR: usize = LENGTH_LEN + TAGGED_LEN;
/// Bytes of ULPDU Length and untagged DDP header.
pub(crate) const UNTAGGED_HDR: usize = LENGTH_LEN + UNTAGGED_LEN;
/// Bytes of a marker.
pub const MARKER_LEN: usize = 4;
/// Bytes of the stream from the start of one marker to the start of the next (RFC 5044 s4.3).
pub const MARKER_INTERVAL: u16 = 512;

/// Value with which the CRC32c register starts.
///
/// RFC 5044 s4.4: the CRC is computed "in the manner described in the iSCSI Protocol document for
/// Header and Data Digests", that is: preset to ones, inverted at the end.
pub const CRC_INIT: u32 = !0;

/// The ULPDU Length in a word of eight bytes, which it begins; the DDP header follows.
#[inline(always)]
pub(crate) const fn length_in_word(ulpdu: u16) -> u64 {
    (ulpdu as u64) << 48
}

/// The ULPDU Length that `header` begins with.
#[inline(always)]
pub(crate) fn ulpdu_len<const N: usize>(header: &[u8; N]) -> u16 {
    header.be16::<0>()
}

/// Bytes of ULPDU Length and DDP header, as far as the first `have` bytes of `hdr` tell. Once
/// that many are there, it is final; if it is less than [`TAGGED_HDR`] then, the ULPDU is too short
/// for its DDP header.
#[inline]
pub(crate) fn header_len(have: usize, hdr: &[u8; UNTAGGED_HDR]) -> usize {
    let ulpdu = usize::from(ulpdu_len(hdr));
    if have < LENGTH_LEN || ulpdu < TAGGED_LEN {
        LENGTH_LEN
    } else if have == LENGTH_LEN {
        LENGTH_LEN + 1
    } else if hdr[LENGTH_LEN] & TAGGED != 0 {
        TAGGED_HDR
    } else if ulpdu < UNTAGGED_LEN {
        LENGTH_LEN + 1
    } else {
        UNTAGGED_HDR
    }
}

/// Bytes of the ULPDU behind its header, which has `header` bytes with the ULPDU Length.
#[inline(always)]
pub(crate) const fn payload_len(ulpdu: u16, header: usize) -> u32 {
    (ulpdu as u32 + LENGTH_LEN as u32).saturating_sub(header as u32)
}

/// Splits an FPDU, to be written, into what the CRC covers and the CRC field.
#[inline(always)]
pub(crate) fn split_crc_mut(fpdu: &mut [u8]) -> Option<(&mut [u8], &mut [u8; CRC_LEN])> {
    fpdu.split_last_chunk_mut()
}

/// Splits the rest of an FPDU off the front of `stream`, of which `covered` bytes come before the
/// CRC field. Returns these, the CRC field, and what follows the FPDU; `None` if it is not whole.
#[inline(always)]
pub(crate) fn split_crc<T>(stream: &[T], covered: usize) -> Option<(&[T], &[T; CRC_LEN], &[T])> {
    let (covered, behind) = stream.split_at_checked(covered)?;
    let (field, behind) = behind.split_first_chunk()?;
    Some((covered, field, behind))
}

/// Header, payload and pad, the places of which are all that the CRC covers.
#[inline(always)]
pub(crate) fn parts_mut(
    covered: &mut [u8],
    header: usize,
    payload: usize,
) -> Option<(&mut [u8], &mut [u8], &mut [u8])> {
    let (header, rest) = covered.split_at_mut_checked(header)?;
    let (payload, pad) = rest.split_at_mut_checked(payload)?;
    Some((header, payload, pad))
}

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

//= 5044-4.1-2: The pad data MUST be set to zero by
/// The pad of a ULPDU of this length.
///
/// RFC 5044 s4.1: "The pad data MUST be set to zero by the sender".
#[inline]
pub(crate) fn pad(ulpdu: u16) -> &'static [u8] {
    const ZEROS: [u8; 3] = [0; 3];
    ZEROS.get(..usize::from(pad_len(ulpdu))).unwrap_or(&ZEROS)
}

//= 5044-4.1-2
/// Writes the pad, whose place has its length. A call of `memset()` costs more than the bytes.
#[inline(always)]
pub(crate) fn write_pad(pad: &mut [u8]) {
    match pad {
        [] => {}
        [a] => *a = 0,
        [a, b] => [*a, *b] = [0; 2],
        pad => pad.fill(0),
    }
}

/// Bytes of a trailer with `pad` bytes of pad.
#[inline(always)]
pub(crate) const fn trailer_len(pad: u8) -> usize {
    pad as usize + CRC_LEN
}

/// Calls `put` with the trailer, of `pad` bytes of pad and the CRC field for the final value of
/// the CRC32c register.
#[inline(always)]
pub(crate) fn with_trailer<R>(pad: usize, register: u32, put: impl FnOnce(&[u8]) -> R) -> R {
    let [a, b, c, d] = crc_field(register);
    match pad {
        0 => put(&[a, b, c, d]),
        1 => put(&[0, a, b, c, d]),
        2 => put(&[0, 0, a, b, c, d]),
        _ => put(&[0, 0, 0, a, b, c, d]),
    }
}

/// The pad, of `pad` bytes, and the CRC field behind it at the front of `trailer`.
#[inline(always)]
pub(crate) const fn parse_trailer(trailer: &[u8; TRAILER_MAX], pad: u8) -> (&[u8], [u8; CRC_LEN]) {
    match (pad, trailer) {
        (0, &[a, b, c, d, ..]) => (&[], [a, b, c, d]),
        (1, &[ref pad @ .., a, b, c, d, _, _]) => (pad, [a, b, c, d]),
        (2, &[ref pad @ .., a, b, c, d, _]) => (pad, [a, b, c, d]),
        (_, &[ref pad @ .., a, b, c, d]) => (pad, [a, b, c, d]),
    }
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
