// SPDX-License-Identifier: GPL-2.0

//! Layer, Error Type and Error Code of a Terminate (RFC 5040 s4.8 Figure 9, RFC 5041 s7.2,
//! RFC 5044 s8, RFC 6581 s8). Which fault of the peer has which code is in [`crate::rx`] (`fault`).

use core::fmt;

/// The layer that found the error, 4 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// RDMAP, 0.
    Rdmap,
    /// DDP, 1.
    Ddp,
    /// The layer below DDP, 2: here MPA.
    Llp,
    /// Not defined, 3 to 15.
    Other(u8),
}

//= 5040-4.8-3: valid values that MUST be used for this field.
//= 5041-7.2-1: The following error numbers MUST be used when reporting errors
/// The error that a Terminate reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TermCode {
    layer: u8,
    etype: u8,
    code: u8,
}

/// Error Type "Local Catastrophic Error" of RDMAP and DDP.
const CATASTROPHIC: u8 = 0;
/// Error Type "Remote Protection Error" of RDMAP.
const PROTECTION: u8 = 1;

/// One row per code of the RFCs: documented constant and text.
macro_rules! term_codes {
    ($($(#[$doc:meta])* $name:ident = ($layer:literal, $etype:literal, $code:literal),
       $text:literal;)*) => {
        impl TermCode {
            $($(#[$doc])* pub const $name: Self = Self::new($layer, $etype, $code);)*

            /// Every code that the RFCs define, with its name.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $text)),*];
        }
    };
}

term_codes! {
    /// RDMAP, Local Catastrophic Error: "any value in this field is acceptable".
    LOCAL_CATASTROPHIC = (0, 0, 0x00), "local catastrophic error";
    /// RDMAP, Remote Protection Error.
    READ_INVALID_STAG = (0, 1, 0x00), "invalid STag";
    /// RDMAP, Remote Protection Error.
    READ_BOUNDS = (0, 1, 0x01), "base or bounds violation";
    /// RDMAP, Remote Protection Error.
    READ_ACCESS = (0, 1, 0x02), "access rights violation";
    /// RDMAP, Remote Protection Error.
    READ_NOT_ASSOCIATED = (0, 1, 0x03), "STag not associated with RDMAP Stream";
    /// RDMAP, Remote Protection Error.
    READ_TO_WRAP = (0, 1, 0x04), "TO wrap";
    /// RDMAP, Remote Protection Error.
    CANNOT_INVALIDATE = (0, 1, 0x09), "STag cannot be invalidated";
    /// RDMAP, Remote Protection Error.
    PROTECTION_UNSPECIFIED = (0, 1, 0xff), "unspecified protection error";
    /// RDMAP, Remote Operation Error.
    RDMAP_VERSION = (0, 2, 0x05), "invalid RDMAP version";
    /// RDMAP, Remote Operation Error.
    UNEXPECTED_OPCODE = (0, 2, 0x06), "unexpected opcode";
    /// RDMAP, Remote Operation Error.
    CATASTROPHIC_STREAM = (0, 2, 0x07), "catastrophic error, localized to RDMAP Stream";
    /// RDMAP, Remote Operation Error.
    CATASTROPHIC_GLOBAL = (0, 2, 0x08), "catastrophic error, global";
    /// RDMAP, Remote Operation Error.
    OPERATION_CANNOT_INVALIDATE = (0, 2, 0x09), "STag cannot be invalidated";
    /// RDMAP, Remote Operation Error.
    OPERATION_UNSPECIFIED = (0, 2, 0xff), "unspecified operation error";
    /// DDP, Local Catastrophic.
    DDP_CATASTROPHIC = (1, 0, 0x00), "DDP local catastrophic error";
    /// DDP, Tagged Buffer Error.
    TAGGED_INVALID_STAG = (1, 1, 0x00), "tagged buffer: invalid STag";
    /// DDP, Tagged Buffer Error.
    TAGGED_BOUNDS = (1, 1, 0x01), "tagged buffer: base or bounds violation";
    /// DDP, Tagged Buffer Error.
    TAGGED_NOT_ASSOCIATED = (1, 1, 0x02), "tagged buffer: STag not associated with DDP Stream";
    /// DDP, Tagged Buffer Error.
    TAGGED_TO_WRAP = (1, 1, 0x03), "tagged buffer: TO wrap";
    /// DDP, Tagged Buffer Error.
    TAGGED_VERSION = (1, 1, 0x04), "tagged buffer: invalid DDP version";
    /// DDP, Untagged Buffer Error.
    INVALID_QN = (1, 2, 0x01), "untagged buffer: invalid QN";
    /// DDP, Untagged Buffer Error.
    NO_BUFFER = (1, 2, 0x02), "untagged buffer: invalid MSN, no buffer available";
    /// DDP, Untagged Buffer Error.
    MSN_RANGE = (1, 2, 0x03), "untagged buffer: invalid MSN, range is not valid";
    /// DDP, Untagged Buffer Error.
    INVALID_MO = (1, 2, 0x04), "untagged buffer: invalid MO";
    /// DDP, Untagged Buffer Error.
    MESSAGE_TOO_LONG = (1, 2, 0x05), "untagged buffer: message too long for available buffer";
    /// DDP, Untagged Buffer Error.
    UNTAGGED_VERSION = (1, 2, 0x06), "untagged buffer: invalid DDP version";
    /// MPA: "TCP connection closed, terminated, or lost".
    MPA_CONNECTION_LOST = (2, 0, 0x01), "MPA: TCP connection lost";
    /// MPA: "Received MPA CRC does not match the calculated value for the FPDU".
    MPA_CRC = (2, 0, 0x02), "MPA: CRC mismatch";
    /// MPA: Marker and "ULPDU Length fields do not agree on the start of an FPDU".
    MPA_FPDU_START = (2, 0, 0x03), "MPA: FPDU start not where expected";
    /// MPA: "Invalid MPA Request Frame or MPA Response Frame received".
    MPA_INVALID_FRAME = (2, 0, 0x04), "MPA: invalid request or reply frame";
    //= 6581-9.3-1: The initiator or responder MUST generate the TERM message that
    //# deviates: an initiator does that has the Reply. A Terminate is an FPDU, so the other ends
    //# are resets, at which the sender may send none yet: an initiator's without a good Reply
    //# (`connecting::a_reply_has_thirty_seconds`, `tests/vm/cm/initiator.sh:bad_replies`: no
    //# answer in time, a bad frame, a consumer or device that goes), and a responder's before the
    //# first FPDU of its peer (RFC 5044 s7.1.2): no memory for the queue pair, a bad Request, no
    //# answer of the consumer (`tests/vm/cm/responder.sh:bad_frames`), no RTR in time
    //# (`ending::an_rtr_has_ten_seconds`)
    /// Enhanced MPA: local catastrophic.
    MPA_LOCAL_CATASTROPHIC = (2, 0, 0x05), "MPA: local catastrophic error";
    //= 6581-9.1-6: Thus, the TERM message MUST contain Layer 2, Error Type
    /// Enhanced MPA: insufficient IRD resources.
    MPA_INSUFFICIENT_IRD = (2, 0, 0x06), "MPA: insufficient IRD resources";
    //= 6581-9.2-9: Thus, the TERM message MUST contain Layer 2, Error Type
    /// Enhanced MPA: no matching RTR option.
    MPA_NO_MATCHING_RTR = (2, 0, 0x07), "MPA: no matching RTR option";
}

impl TermCode {
    /// A code by its numbers; layer and error type are 4 bits wide and are cut to that.
    #[inline]
    pub const fn new(layer: u8, etype: u8, code: u8) -> Self {
        Self {
            layer: layer & 0x0f,
            etype: etype & 0x0f,
            code,
        }
    }

    /// The layer that found the error.
    #[inline]
    pub const fn layer(self) -> Layer {
        match self.layer {
            0 => Layer::Rdmap,
            1 => Layer::Ddp,
            2 => Layer::Llp,
            other => Layer::Other(other),
        }
    }

    /// Error Type within the layer, 0 to 15.
    #[inline]
    pub const fn etype(self) -> u8 {
        self.etype
    }

    /// Error Code within the type, 0 to 255.
    #[inline]
    pub const fn code(self) -> u8 {
        self.code
    }

    /// Layer, Error Type and Error Code, as they are on the wire.
    pub const fn numbers(self) -> [u8; 3] {
        [self.layer, self.etype, self.code]
    }

    //= 5040-4.8-2: The Terminate Control field MUST have the format defined in
    /// The 16 bits that begin the Terminate Control field (Figure 8).
    #[inline]
    pub(crate) const fn bits(self) -> [u8; 2] {
        [(self.layer << 4) | self.etype, self.code]
    }

    /// The code in the first 16 bits of the Terminate Control field.
    #[inline]
    pub(crate) const fn from_bits(b: [u8; 2]) -> Self {
        Self::new(b[0] >> 4, b[0] & 0x0f, b[1])
    }

    /// Whether a Terminate with this code includes DDP Segment Length and DDP Header, when there
    /// are such (RFC 5040 s4.8, Figure 10).
    #[inline]
    pub const fn includes_ddp_header(self) -> bool {
        // "The DDP Header is not present if the Terminate Error Type is a Local Catastrophic
        // Error."
        self.etype != CATASTROPHIC && matches!(self.layer(), Layer::Rdmap | Layer::Ddp)
    }

    /// Whether a Terminate with this code includes the RDMA Read Request Header, when the offending
    /// message is a Read Request (RFC 5040 s4.8, Figure 10).
    #[inline]
    pub const fn includes_rdma_header(self) -> bool {
        matches!(self.layer(), Layer::Rdmap) && self.etype == PROTECTION
    }

    /// Whether it is a Remote Protection Error of RDMAP.
    #[inline]
    pub const fn is_protection(self) -> bool {
        self.includes_rdma_header()
    }

    /// Whether an RFC defines the code.
    pub(crate) fn is_defined(self) -> bool {
        self.defined_text().is_some()
    }

    /// Name of the error, "unknown error" if no RFC defines the code.
    pub fn text(self) -> &'static str {
        self.defined_text().unwrap_or("unknown error")
    }

    fn defined_text(self) -> Option<&'static str> {
        // Local catastrophic errors have no code: "Any value in this field is acceptable".
        let key = match self.layer() {
            Layer::Rdmap if self.etype == CATASTROPHIC => Self::LOCAL_CATASTROPHIC,
            _ => self,
        };
        let (_, text) = Self::ALL.iter().find(|(code, _)| *code == key)?;
        Some(text)
    }
}

impl fmt::Display for TermCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layer, etype, code) = (self.layer, self.etype, self.code);
        write!(f, "{layer:#x}/{etype:#x}/{code:#04x} ({})", self.text())
    }
}

impl fmt::Debug for TermCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
