// SPDX-License-Identifier: GPL-2.0

//! MPA Request and Reply Frames on the wire (RFC 5044 s7.1.1, RFC 6581 s6).

use super::enhanced::{Enhanced, ENHANCED_LEN};
use super::MpaError;

//= 5044-7.1.1-19
/// Most bytes of Private Data in a frame, including the enhanced data (RFC 5044 s7.1.1).
pub const MAX_PRIVATE_DATA: usize = 512;

/// Bytes of a frame without Private Data.
pub(super) const HEADER_LEN: usize = 20;

/// Bytes of the longest frame.
pub const FRAME_MAX: usize = HEADER_LEN + MAX_PRIVATE_DATA;

/// Bytes of the key.
pub(super) const KEY_LEN: usize = 16;

//= 5044-7.1.1-5: This bit declares an endpoint's REQUIRED Marker usage.
/// M: the sender of the frame requires markers.
const MARKERS: u8 = 0x80;
/// C: the sender prefers CRCs.
const CRC: u8 = 0x40;
/// R: connection rejected.
const REJECTED: u8 = 0x20;
/// S: Private Data begins with enhanced data (RFC 6581 s6).
const ENHANCED: u8 = 0x10;
/// A reserved bit that siw uses as an experiment: FPDUs may exceed one TCP segment. A Request
/// offers it, a Reply agrees.
const LARGE_FPDU: u8 = 0x08;
/// A reserved bit, set in Replies to Requests with [`LARGE_FPDU`]: the responder knows that bit. A
/// Reply that has [`LARGE_FPDU`] alone may come from a peer that copies the Request's flags, which
/// is no consent.
const KNOWS_LARGE_FPDU: u8 = 0x04;
/// A reserved bit, beside one of the two above: the sender of the frame takes Sends with immediate
/// data, which are this engine's own.
const SEND_IMMEDIATE: u8 = 0x02;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Sent by the initiator.
    Request,
    /// Sent by the responder.
    Reply,
}

impl FrameKind {
    //= 5044-7.1.1-1: Initiator mode senders MUST set this field to the
    //= 5044-7.1.1-3: Responder mode senders MUST set this field to the
    /// The key that begins the frame.
    pub(super) const fn key(self) -> &'static [u8; KEY_LEN] {
        match self {
            Self::Request => b"MPA ID Req Frame",
            Self::Reply => b"MPA ID Rep Frame",
        }
    }

    /// The frame that the other end sends.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Request => Self::Reply,
            Self::Reply => Self::Request,
        }
    }
}

/// The fields of a frame between key and Private Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) markers: bool,
    pub(super) crc: bool,
    pub(super) rejected: bool,
    pub(super) large_fpdu: bool,
    pub(super) knows_large_fpdu: bool,
    pub(super) send_immediate: bool,
    pub(super) enhanced: bool,
    pub(super) revision: u8,
    pub(super) pd_length: u16,
}

impl Header {
    //= 5044-7.1.1-15: of the specification MUST check this field.
    //= 5044-7.1.1-16: version, then it MUST close the connection and report
    //= 5044-7.1.1-18: octets, the receiver MUST close the connection and report
    //= 5044-7.1.2-11: MPA implementations MUST validate the PD_Length field.
    //= 5044-7.1.2-13: the startup frame MUST be considered improperly formatted.
    //= 5044-C.1-1: and RDMAP version MUST be identical in the two directions.
    //= 6581-6-3: A host accepting MPA connections MUST continue to accept MPA Requests
    //= 6581-6-1, 6581-6-4
    /// Reads and checks the fields after the key.
    pub(super) fn parse(b: &[u8; HEADER_LEN - KEY_LEN]) -> Result<Self, MpaError> {
        let [flags, revision, len @ ..] = *b;
        // RFC 5044 s7.1.1: "If the MPA receiver cannot interoperate with the received version, then
        // it MUST close the connection and report an error locally." Revision 0 is that of RDMAC
        // RNICs, which need markers and other DDP and RDMAP versions.
        if !(1..=2).contains(&revision) {
            return Err(MpaError::Revision(revision));
        }
        let header = Self {
            markers: flags & MARKERS != 0,
            crc: flags & CRC != 0,
            rejected: flags & REJECTED != 0,
            large_fpdu: flags & LARGE_FPDU != 0,
            knows_large_fpdu: flags & KNOWS_LARGE_FPDU != 0,
            send_immediate: flags & SEND_IMMEDIATE != 0,
            // RFC 6581 s6: "To use any enhanced connection establishment feature, this MUST be set
            // to two or higher." In revision 1 the bit is reserved, "and not checked on reception".
            enhanced: revision >= 2 && flags & ENHANCED != 0,
            revision,
            pd_length: u16::from_be_bytes(len),
        };
        // RFC 5044 s7.1.1: "if the length of the Private Data field exceeds 512 octets, the
        // receiver MUST close the connection and report an error locally."
        if usize::from(header.pd_length) > MAX_PRIVATE_DATA {
            return Err(MpaError::PrivateDataLength(header.pd_length));
        }
        // RFC 6581 s6: "if the 'S' flag is set, Private Data MUST begin with enhanced RDMA
        // connection establishment data".
        if header.enhanced && usize::from(header.pd_length) < ENHANCED_LEN {
            return Err(MpaError::PrivateDataLength(header.pd_length));
        }
        Ok(header)
    }

    //= 5044-7.1.1-13: It MUST be set to zero when sending, and
    //# deviates: with large_fpdu=1 (the default) two of these bits are set and looked at: 0x08
    //# offers FPDUs that are longer than a segment, and 0x04 says in a Reply that the responder
    //# knows the former. A peer that ends the connection for that is asked again without
    //# (`tests/vm/cm/initiator.sh:without_large_after_fin`); one that copies the Request's bits
    //# gets no large FPDUs (`tests/vm/cm/initiator.sh:reflected`)
    //= 6581-6-1: [RFC5044] specifies that 'Res' MUST be set to zero when
    //# deviates: two of the other bits are set and looked at: see 5044-7.1.1-13
    fn flags(&self) -> u8 {
        let flag = |set, bit| if set { bit } else { 0 };
        flag(self.markers, MARKERS)
            | flag(self.crc, CRC)
            | flag(self.rejected, REJECTED)
            | flag(self.enhanced, ENHANCED)
            | flag(self.large_fpdu, LARGE_FPDU)
            | flag(self.knows_large_fpdu, KNOWS_LARGE_FPDU)
            | flag(self.send_immediate, SEND_IMMEDIATE)
    }
}

/// A received frame that is properly formatted.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub(super) kind: FrameKind,
    pub(super) header: Header,
    pub(super) data: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Request or Reply.
    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// MPA revision, 1 or 2.
    pub fn revision(&self) -> u8 {
        self.header.revision
    }

    /// M: the peer requires markers in the FPDUs it receives.
    pub fn markers(&self) -> bool {
        self.header.markers
    }

    /// C: the peer prefers CRCs.
    pub fn crc(&self) -> bool {
        self.header.crc
    }

    /// R: the responder rejects the connection. Not checked in a Request (RFC 5044 s7.1.1).
    pub fn rejected(&self) -> bool {
        self.kind == FrameKind::Reply && self.header.rejected
    }

    /// A Request: the peer offers FPDUs that exceed one TCP segment. A Reply: it agrees to them.
    pub fn large_fpdu(&self) -> bool {
        self.header.large_fpdu && (self.kind == FrameKind::Request || self.header.knows_large_fpdu)
    }

    /// A Reply: the peer knows the offer of large FPDUs, whether it agrees or not.
    pub fn knows_large_fpdu(&self) -> bool {
        self.kind == FrameKind::Reply && self.header.knows_large_fpdu
    }

    /// The peer takes Sends with immediate data.
    pub fn send_immediate(&self) -> bool {
        let beside = match self.kind {
            FrameKind::Request => self.header.large_fpdu,
            FrameKind::Reply => self.header.knows_large_fpdu,
        };
        beside && self.header.send_immediate
    }

    //= 6581-9.1-7: The initiator MUST pass the responder provided IRD and
    //# deviates: kept for a Reject; for an Accept see 6581-9.1-1
    /// Enhanced connection establishment data, if the frame has them.
    ///
    /// RFC 6581 s9.1: "The responder and initiator MUST pass the peer's provided IRD and ORD values
    /// to the ULP", those of a rejecting Reply as well.
    pub fn enhanced(&self) -> Option<Enhanced> {
        let data = self.data.first_chunk().filter(|_| self.header.enhanced)?;
        Some(Enhanced::from_bytes(data))
    }

    //= 5044-7.1.2-12
    /// The ULP's Private Data: at most 512 bytes, 508 in an enhanced frame.
    pub fn private_data(&self) -> &'a [u8] {
        let skip = if self.header.enhanced {
            ENHANCED_LEN
        } else {
            0
        };
        self.data.get(skip..).unwrap_or_default()
    }
}

//= 5044-7.1.1-17: This field MUST contain the length in octets of
//= 5044-7.1.1-19: The Private Data field MUST be between 0 and 512
//= 6581-6-4: set, Private Data MUST begin with enhanced RDMA connection
//= 6581-7-3: Private Data length MUST NOT exceed 512 bytes in
/// Writes a frame to the front of `out` and returns its length.
pub(super) fn encode(
    kind: FrameKind,
    mut header: Header,
    enhanced: Option<Enhanced>,
    private_data: &[u8],
    out: &mut [u8],
) -> Result<usize, MpaError> {
    let enhanced = enhanced.map(Enhanced::to_bytes);
    let enhanced = enhanced.as_ref().map_or(&[][..], |e| e);
    let pd_length = enhanced.len().saturating_add(private_data.len());
    if pd_length > MAX_PRIVATE_DATA {
        return Err(MpaError::PrivateDataTooLong);
    }
    header.enhanced = !enhanced.is_empty();
    header.pd_length = pd_length as u16;
    let [l0, l1] = header.pd_length.to_be_bytes();
    let fields = [header.flags(), header.revision, l0, l1];

    let len = HEADER_LEN + pd_length;
    let mut rest = out.get_mut(..len).ok_or(MpaError::BufferTooSmall)?;
    for part in [&kind.key()[..], &fields, enhanced, private_data] {
        let (front, back) = rest
            .split_at_mut_checked(part.len())
            .ok_or(MpaError::BufferTooSmall)?;
        front.copy_from_slice(part);
        rest = back;
    }
    Ok(len)
}
