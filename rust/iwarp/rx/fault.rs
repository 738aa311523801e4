// SPDX-License-Identifier: GPL-2.0

//! The faults of a received stream, and the errors that a Terminate reports for them.

use core::fmt;

use super::Refusal;
use crate::rdmap::TermCode;

//= 5044-8-1: The following errors MUST be detected by MPA and
/// The layer that found a fault, with the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An FPDU's CRC does not match its contents.
    Crc,
    /// FPDU boundaries are lost: a ULPDU has an impossible length.
    Framing,
    /// A DDP check failed (RFC 5041 s7.1).
    Ddp(TermCode),
    /// An RDMAP check failed (RFC 5040 s7.2).
    Rdmap(TermCode),
    /// This end cannot go on; the peer did nothing wrong.
    Local,
}

/// A fatal error of the inbound stream. The stream cannot continue after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub(crate) Reason);

/// One row per fault: name, Terminate code (`-`: none is sent), text.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident => $code:tt, $text:literal;)*) => {
        //= 5041-7.2-1
        /// Every fault that the receiver can find.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            const fn term(self) -> Option<TermCode> {
                match self { $(Self::$name => reasons!(@code $code),)* }
            }

            const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
    (@code -) => { None };
    (@code $code:ident) => { Some(TermCode::$code) };
}

reasons! {
    // MPA, RFC 5044 s8.
    CrcMismatch => MPA_CRC, "CRC mismatch";
    UlpduTooLong => MPA_FPDU_START, "ULPDU length above 64768";
    UlpduTooShort => MPA_FPDU_START, "ULPDU shorter than its DDP header";

    // DDP, RFC 5041 s7.1 and s7.2.
    TaggedVersion => TAGGED_VERSION, "invalid DDP version of tagged segment";
    UntaggedVersion => UNTAGGED_VERSION, "invalid DDP version of untagged segment";
    TaggedInvalidStag => TAGGED_INVALID_STAG, "tagged segment: invalid STag";
    TaggedStagChanged => TAGGED_INVALID_STAG, "STag differs within one tagged message";
    TaggedBounds => TAGGED_BOUNDS, "tagged segment outside of its buffer";
    TaggedNotAssociated => TAGGED_NOT_ASSOCIATED, "tagged segment: STag of another stream";
    /// DDP has no code for missing rights. The nearest one: an STag not valid for this access.
    TaggedAccess => TAGGED_INVALID_STAG, "tagged segment: buffer grants no such access";
    TaggedToWrap => TAGGED_TO_WRAP, "tagged segment: TO plus length wraps";
    TaggedTooLong => TAGGED_BOUNDS, "tagged message of 2^32 bytes or more";
    InvalidQn => INVALID_QN, "no such untagged queue";
    NoBuffer => NO_BUFFER, "no receive buffer for Send";
    //= 5040-6.1-5
    ReadQueueFull => NO_BUFFER, "more Read Requests than IRD";
    MsnRange => MSN_RANGE, "unexpected MSN";
    InvalidMo => INVALID_MO, "unexpected MO";
    MessageTooLong => MESSAGE_TOO_LONG, "message longer than its untagged buffer";
    ReadRequestTooLong => MESSAGE_TOO_LONG, "Read Request longer than its header";
    //= 7306-6.1-3
    ImmediateTooLong => MESSAGE_TOO_LONG, "Immediate Data of more than 8 bytes";
    AtomicTooLong => MESSAGE_TOO_LONG, "Atomic Request longer than its header";

    // RDMAP, RFC 5040 s7.2.
    RdmapVersion => RDMAP_VERSION, "invalid RDMAP version";
    ReservedOpcode => UNEXPECTED_OPCODE, "reserved RDMAP opcode";
    OpcodeNotTagged => UNEXPECTED_OPCODE, "opcode of an untagged message in a tagged segment";
    OpcodeNotOfQueue => UNEXPECTED_OPCODE, "opcode does not belong to the untagged queue";
    OpcodeChanged => UNEXPECTED_OPCODE, "message begins before the one under way ends";
    ReadResponseUnexpected => UNEXPECTED_OPCODE, "Read Response without outstanding read";
    ReadResponseStag => TAGGED_INVALID_STAG, "Read Response with other STag than requested";
    ReadResponseTo => TAGGED_BOUNDS, "Read Response with other TO than requested";
    ReadResponseTooLong => TAGGED_BOUNDS, "Read Response longer than requested";
    ReadResponseTooShort => OPERATION_UNSPECIFIED, "Read Response shorter than requested";
    ReadRequestTooShort => OPERATION_UNSPECIFIED, "Read Request shorter than its header";
    //= 5040-7.2-9: The Data Source STag MUST be valid.
    ReadInvalidStag => READ_INVALID_STAG, "Read Request: invalid source STag";
    //= 5040-7.2-11: The Data Source Tagged Offset MUST fall in the range of
    //= 5040-7.2-12: Read Message Size MUST fall in the range of
    ReadBounds => READ_BOUNDS, "Read Request outside of its source buffer";
    ReadAccess => READ_ACCESS, "Read Request: source buffer is not readable";
    //= 5040-7.2-10: The Data Source STag MUST be associated to this RDMAP Stream.
    ReadNotAssociated => READ_NOT_ASSOCIATED, "Read Request: source STag of another stream";
    ReadToWrap => READ_TO_WRAP, "Read Request: source TO plus length wraps";
    //= 5040-7.2-4: The Invalidate STag MUST be valid.
    InvalidateInvalidStag => READ_INVALID_STAG, "Send with Invalidate: invalid STag";
    //= 5040-7.2-5: The STag MUST be associated to this RDMAP Stream.
    CannotInvalidate => CANNOT_INVALIDATE, "Send with Invalidate: STag cannot be invalidated";
    //= 7306-6.1-3: If the Immediate Data operation is Completed in error
    ImmediateTooShort => OPERATION_UNSPECIFIED, "Immediate Data of less than 8 bytes";
    AtomicTooShort => OPERATION_UNSPECIFIED, "Atomic Request shorter than its header";
    //= 7306-5.2.1-12
    AtomicUnknown => UNEXPECTED_OPCODE, "Atomic Request with an unknown operation code";
    //= 7306-5.1.1-2a: MUST be surfaced as errors, and
    //= 7306-5.1.1-3: an error MUST be surfaced and a terminate message MUST be generated
    //= 7306-5.1.2-3c: The result MUST be surfaced as an error
    //= 7306-8.2-7: In the case of an error, the RDMAP layer MUST
    /// RFC 7306 s8.2: "a Terminate Message indicating RDMA Layer Remote Operation Error with Error
    /// Code Name "Catastrophic error, localized to RDMAP Stream"".
    AtomicMisaligned => CATASTROPHIC_STREAM, "Atomic Request for a target that is not aligned";
    ImmediateUnexpected => UNEXPECTED_OPCODE, "Immediate Data that the consumer does not expect";
    //= 7306-5.2.2-8: when an invalid Atomic Operation Response Message is delivered to
    AtomicResponseUnexpected => UNEXPECTED_OPCODE, "Atomic Response to no request";
    //= 7306-5.2.2-8
    AtomicResponseLength => OPERATION_UNSPECIFIED, "Atomic Response not as long as its header";
    /// RFC 5040 s7.1 lists the messages whose errors call for a Terminate; Terminate is not one.
    TerminateTooShort => -, "Terminate without its control field";

    Local => LOCAL_CATASTROPHIC, "local error";
    /// No fault: the handler wants the segment to wait. Never leaves the receiver.
    Waits => -, "segment that waits";
}

impl Fault {
    /// The error that a Terminate for this fault reports, `None` if none is to be sent.
    pub const fn term(&self) -> Option<TermCode> {
        self.0.term()
    }

    /// The layer that found the fault.
    pub const fn kind(&self) -> FaultKind {
        match self.0 {
            Reason::CrcMismatch => FaultKind::Crc,
            Reason::UlpduTooLong | Reason::UlpduTooShort => FaultKind::Framing,
            Reason::Local => FaultKind::Local,
            other => match other.term() {
                Some(code) if matches!(code.layer(), crate::rdmap::Layer::Ddp) => {
                    FaultKind::Ddp(code)
                }
                Some(code) => FaultKind::Rdmap(code),
                None => FaultKind::Rdmap(TermCode::OPERATION_UNSPECIFIED),
            },
        }
    }

    //= 5040-5.3-10b: Invalidate the STag if it is associated with the
    /// The fault in words.
    pub const fn reason(&self) -> &'static str {
        self.0.text()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({:?}: {})", self.0, self.reason())
    }
}

/// The message or placement that a handler refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Placement or delivery of a tagged message.
    Tagged,
    /// Placement or delivery of a Send.
    Send,
    /// Delivery of a Send with Invalidate.
    SendInvalidate,
    /// A Read Request.
    ReadRequest,
    /// An Atomic Request.
    AtomicRequest,
    /// An Atomic Response.
    AtomicResponse,
    /// Anything else.
    Other,
}

impl Refused {
    /// The fault that a refusal amounts to.
    pub(super) fn reason(self, why: Refusal) -> Reason {
        use Refusal as W;
        match (self, why) {
            (Self::Tagged, W::InvalidStag) => Reason::TaggedInvalidStag,
            (Self::Tagged, W::Bounds) => Reason::TaggedBounds,
            (Self::Tagged, W::Access) => Reason::TaggedAccess,
            (Self::Tagged, W::NotAssociated) => Reason::TaggedNotAssociated,
            (Self::Tagged, W::Wrap) => Reason::TaggedToWrap,

            (Self::ReadRequest | Self::AtomicRequest, W::InvalidStag) => Reason::ReadInvalidStag,
            (Self::ReadRequest | Self::AtomicRequest, W::Bounds) => Reason::ReadBounds,
            (Self::ReadRequest | Self::AtomicRequest, W::Access) => Reason::ReadAccess,
            (Self::ReadRequest | Self::AtomicRequest, W::NotAssociated) => {
                Reason::ReadNotAssociated
            }
            (Self::ReadRequest | Self::AtomicRequest, W::Wrap) => Reason::ReadToWrap,
            (Self::ReadRequest | Self::AtomicRequest, W::ReadQueueFull | W::NoBuffer) => {
                Reason::ReadQueueFull
            }
            (Self::AtomicRequest, W::Misaligned) => Reason::AtomicMisaligned,
            (Self::AtomicResponse, W::Unexpected) => Reason::AtomicResponseUnexpected,

            // RFC 5040 s7.2 rule 4: "The Invalidate STag MUST be valid."
            (Self::SendInvalidate, W::InvalidStag) => Reason::InvalidateInvalidStag,
            // RFC 5040 s5.3: "issue a Terminate Message with the STag Cannot be Invalidated
            // Terminate Error Code, if the STag is not associated with the RDMAP Stream".
            (Self::SendInvalidate, W::CannotInvalidate | W::NotAssociated | W::Access) => {
                Reason::CannotInvalidate
            }

            (Self::Send, W::Unexpected) => Reason::ImmediateUnexpected,
            (Self::Send | Self::SendInvalidate, W::NoBuffer) => Reason::NoBuffer,
            (Self::Send | Self::SendInvalidate, W::TooLong | W::Bounds) => Reason::MessageTooLong,

            // Other refusals mean nothing to the peer: for instance that of a receive buffer whose
            // local key is bad.
            _ => Reason::Local,
        }
    }
}
