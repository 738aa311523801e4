// SPDX-License-Identifier: GPL-2.0

//! The Terminate Header (RFC 5040 s4.8).

use core::fmt;

use super::{Opcode, TermCode, ATOMIC_REQUEST_LEN, READ_REQUEST_LEN};
use crate::ddp::{UntaggedHeader, TAGGED_LEN, UNTAGGED_LEN};
use crate::types::{Msn, Qn, ReadRequest, Stag};

/// Bytes of the Terminate Control field with the reserved bits after it.
const CONTROL_LEN: usize = 4;
/// Bytes of the DDP Segment Length field.
const SEGMENT_LENGTH_LEN: usize = 2;

/// Bytes of the longest Terminate Header.
pub const TERMINATE_MAX: usize = CONTROL_LEN + SEGMENT_LENGTH_LEN + UNTAGGED_LEN + READ_REQUEST_LEN;

/// HdrCt M: DDP Segment Length valid.
const M: u8 = 0x80;
/// HdrCt D: DDP Header included.
const D: u8 = 0x40;
/// HdrCt R: RDMAP Header included.
const R: u8 = 0x20;

/// A Terminate: error and the headers of the message at fault, as far as they are included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Terminate {
    code: TermCode,
    /// DDP Segment Length, if the M bit is set.
    segment_length: Option<u16>,
    /// Terminated DDP Header; its first byte tells whether it is tagged.
    ddp: Option<[u8; UNTAGGED_LEN]>,
    /// Terminated RDMA Header.
    rdma: Option<[u8; READ_REQUEST_LEN]>,
}

impl Terminate {
    //= 7306-8.1-2: In this case, the Error Type and Error Code fields
    /// A Terminate without headers, for errors not tied to an incoming message.
    ///
    /// RFC 5040 s7.1 case 1: "the Error Type and Error Code fields are included in the Terminate
    /// Message, but the Terminated DDP Header and Terminated RDMA Header fields are set to zero",
    /// which by the HdrCt bits of s4.8 means that they are absent.
    pub const fn new(code: TermCode) -> Self {
        Self {
            code,
            segment_length: None,
            ddp: None,
            rdma: None,
        }
    }

    //= 5040-7.1-2
    /// A Terminate for an error met while serving the Read Request with number `msn`, when `done`
    /// bytes of its response had been sent.
    ///
    /// The DDP header is that of the request as a sender makes it; the RDMA header shows what was
    /// left (RFC 5040 s4.8). Which of them are included depends on `code` (Figure 10).
    pub fn for_read_request(code: TermCode, msn: Msn, req: &ReadRequest, done: u32) -> Self {
        let ddp = UntaggedHeader {
            last: true,
            control: Opcode::ReadRequest.control(),
            invalidate: Stag(0),
            qn: Qn::READ_REQUEST,
            msn,
            mo: 0,
        };
        let rdma = req.after(done).to_bytes();
        const LEN: u16 = (UNTAGGED_LEN + READ_REQUEST_LEN) as u16;
        Self::with_headers(code, LEN, ddp.to_bytes(), Some(rdma))
    }

    //= 7306-8.1-1, 7306-8.1-3
    /// As [`for_read_request`](Self::for_read_request), for the Atomic Request with number `msn`.
    ///
    /// "The Error Type, Error Code, and Terminated DDP Header fields are included in the Terminate
    /// Message, but the Terminated RDMA Header field is set to zero" (RFC 7306 s8.1).
    pub fn for_atomic_request(code: TermCode, msn: Msn) -> Self {
        let ddp = UntaggedHeader {
            last: true,
            control: Opcode::AtomicRequest.control(),
            invalidate: Stag(0),
            qn: Qn::READ_REQUEST,
            msn,
            mo: 0,
        };
        const LEN: u16 = (UNTAGGED_LEN + ATOMIC_REQUEST_LEN) as u16;
        Self::with_headers(code, LEN, ddp.to_bytes(), None)
    }

    //= 5040-4.8-5: It MUST be valid if the M bit is set.
    //= 7306-8.1-3: but the Terminated RDMA Header field is set to zero
    /// A Terminate for a received segment of `segment_length` bytes. `ddp` has its DDP header;
    /// bytes after a tagged one are ignored. It includes what Figure 10 of RFC 5040 asks for.
    pub(crate) fn with_headers(
        code: TermCode,
        segment_length: u16,
        ddp: [u8; UNTAGGED_LEN],
        rdma: Option<[u8; READ_REQUEST_LEN]>,
    ) -> Self {
        let with_ddp = code.includes_ddp_header();
        Self {
            code,
            segment_length: with_ddp.then_some(segment_length),
            ddp: with_ddp.then_some(ddp),
            // "The Terminated RDMA Header is only sent back if the terminate is associated with an
            // RDMA Read Request Message."
            rdma: rdma.filter(|_| code.includes_rdma_header()),
        }
    }

    /// Layer, error type and error code.
    #[inline]
    pub const fn code(&self) -> TermCode {
        self.code
    }

    /// Length in bytes of the DDP segment at fault, if known (M bit).
    #[inline]
    pub const fn segment_length(&self) -> Option<u16> {
        self.segment_length
    }

    /// DDP header of the segment at fault: 14 bytes (tagged) or 18 (untagged).
    #[inline]
    pub fn ddp_header(&self) -> Option<&[u8]> {
        self.ddp.as_ref().map(ddp_header_of)
    }

    /// The opcode of the segment at fault; `None` if its header is not there, or has no opcode.
    #[inline]
    pub fn opcode(&self) -> Option<Opcode> {
        Opcode::from_control(self.ddp?[1])
    }

    /// The number of the Send, or of the Immediate Data, at fault; `None` if no header says so.
    pub fn send_msn(&self) -> Option<Msn> {
        self.msn_of(Qn::SEND)
    }

    /// The number of the Read Request, or of the Atomic Request, at fault; `None` if no header says
    /// so.
    pub fn read_msn(&self) -> Option<Msn> {
        self.msn_of(Qn::READ_REQUEST)
    }

    fn msn_of(&self, qn: Qn) -> Option<Msn> {
        let ddp = self.ddp.filter(|ddp| ddp[0] & crate::ddp::TAGGED == 0)?;
        let header = UntaggedHeader::from_bytes(&ddp);
        (header.qn == qn).then_some(header.msn)
    }

    /// The Read Request at fault, as far as it had not been served.
    #[inline]
    pub fn read_request(&self) -> Option<ReadRequest> {
        self.rdma.as_ref().map(ReadRequest::from_bytes)
    }

    //= 5040-4.8-1: Terminate Header that MUST be used for the Terminate Message:
    //= 5040-4.8-4: This field MUST be set to zero on transmit
    //= 5040-4.8-6: It MUST be present when the D bit is set.
    //= 5040-4.8-7: It MUST be present if the D bit is set.
    //= 5040-4.8-8: It MUST be present if the R bit is set.
    /// Writes the Terminate Header to the front of `out` and returns its length.
    pub(crate) fn encode(&self, out: &mut [u8; TERMINATE_MAX]) -> usize {
        let [b0, b1] = self.code.bits();
        let mut hdrct = 0;
        let mut len = CONTROL_LEN;
        let Some((control, mut rest)) = out.split_first_chunk_mut::<CONTROL_LEN>() else {
            return 0;
        };

        // "DDP Segment Length: [...] It MUST be valid if the M bit is set. It MUST be present when
        // the D bit is set."
        if self.segment_length.is_some() || self.ddp.is_some() {
            if self.segment_length.is_some() {
                hdrct |= M;
            }
            let field = self.segment_length.unwrap_or(0).to_be_bytes();
            rest = append(rest, &field, &mut len);
        }
        if let Some(ddp) = &self.ddp {
            hdrct |= D;
            rest = append(rest, ddp_header_of(ddp), &mut len);
        }
        if let Some(rdma) = &self.rdma {
            hdrct |= R;
            append(rest, rdma, &mut len);
        }
        // "Reserved: 13 bits. This field MUST be set to zero on transmit, ignored on receive."
        *control = [b0, b1, hdrct, 0];
        len
    }

    /// Reads the Terminate Header of a received message.
    ///
    /// A Terminate is the last message of its sender. So its error is reported even if the headers
    /// that it announces are cut short, which are absent then. `None` only if the control field
    /// itself is incomplete.
    pub fn parse(b: &[u8]) -> Option<Self> {
        let (control, mut rest) = b.split_first_chunk::<CONTROL_LEN>()?;
        let (code, hdrct, is_siws) = read_control(*control);
        let mut term = Self::new(code);

        if hdrct & (M | D) != 0 {
            let Some((len, r)) = rest.split_first_chunk() else {
                return Some(term);
            };
            term.segment_length = (hdrct & M != 0).then_some(u16::from_be_bytes(*len));
            rest = r;
        }
        if hdrct & D != 0 {
            let Some((ddp, r)) = take_ddp_header(rest) else {
                return Some(term);
            };
            term.ddp = Some(ddp);
            rest = r;
        }
        if hdrct & R != 0 {
            term.rdma = rest.first_chunk().copied();
            // In the place of the Read's number siw has its length.
            term.ddp = term.ddp.filter(|_| !is_siws);
        }
        Some(term)
    }
}

/// Error and HdrCt bits of a Terminate Control field; and whether it is siw's.
///
/// The kernel's siw, on a little-endian processor, has the fields of a byte in reverse order:
/// Layer and Error Type, and M, D and R in the last bits of theirs (its `struct iwarp_terminate`).
/// It is told by these bits, which RFC 5040 has be zero, or by an error that does not exist
/// otherwise.
fn read_control([kind, code, bits, reserved]: [u8; CONTROL_LEN]) -> (TermCode, u8, bool) {
    const HDRCT: u8 = M | D | R;
    let told = TermCode::from_bits([kind, code]);
    let siws = TermCode::from_bits([kind.rotate_left(4), code]);
    let (hdrct, others) = (bits.reverse_bits(), bits & !HDRCT.reverse_bits());
    if (others, reserved) == (0, 0) && (hdrct != 0 || !told.is_defined()) && siws.is_defined() {
        (siws, hdrct & HDRCT, true)
    } else {
        (told, bits & HDRCT, false)
    }
}

/// Copies `bytes` to the front of `out` and returns the rest of `out`.
///
/// All callers together fill at most [`TERMINATE_MAX`] bytes; if there were no room, the field
/// would be left out instead of a panic.
fn append<'a>(out: &'a mut [u8], bytes: &[u8], len: &mut usize) -> &'a mut [u8] {
    match out.split_at_mut_checked(bytes.len()) {
        Some((field, rest)) => {
            field.copy_from_slice(bytes);
            *len += bytes.len();
            rest
        }
        None => &mut [],
    }
}

/// The bytes of `h` that belong to the header.
fn ddp_header_of(h: &[u8; UNTAGGED_LEN]) -> &[u8] {
    if h[0] & crate::ddp::TAGGED != 0 {
        &h[..TAGGED_LEN]
    } else {
        h
    }
}

/// Splits a DDP header off the front of `b`.
fn take_ddp_header(b: &[u8]) -> Option<([u8; UNTAGGED_LEN], &[u8])> {
    let tagged = b.first()? & crate::ddp::TAGGED != 0;
    if !tagged {
        return b.split_first_chunk().map(|(h, r)| (*h, r));
    }
    let (h, r) = b.split_first_chunk::<TAGGED_LEN>()?;
    let mut ddp = [0; UNTAGGED_LEN];
    *ddp.first_chunk_mut()? = *h;
    Some((ddp, r))
}

impl fmt::Display for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Terminate {}", self.code)?;
        if let Some(len) = self.segment_length {
            write!(f, ", segment of {len} bytes")?;
        }
        if let Some(ddp) = self.ddp_header() {
            f.write_str(", DDP header")?;
            for b in ddp {
                write!(f, " {b:02x}")?;
            }
        }
        if let Some(req) = self.read_request() {
            write!(
                f,
                ", read of {} bytes from STag {} at {:#x}",
                req.len, req.src_stag, req.src_to.0
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for Terminate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
