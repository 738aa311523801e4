// SPDX-License-Identifier: GPL-2.0

//! The RDMAP Control Field: version and opcode (RFC 5040 s4.1).

use crate::types::Qn;

//= 5040-4.1-8: all RDMA Messages MUST have:
//= 7306-4.1-1: All RDMA Messages defined in this specification MUST have:
/// RDMAP version: "01b for an RNIC that complies with this RDMA protocol specification"
/// (RFC 5040 s4.1).
///
/// 00b belongs to RDMAC RNICs, which also announce themselves by MPA revision 0; that revision is
/// refused at connection setup.
pub const VERSION: u8 = 1;

/// [`VERSION`] at its place in the control field, bits 24-25 of Figure 3.
pub(crate) const VERSION_BITS: u8 = VERSION << 6;

/// The bits of the version in the control field.
pub(crate) const VERSION_BITS_MASK: u8 = 0b11 << 6;

/// The bit of the control field that is set in the opcodes which RFC 5040 reserves. RFC 7306 uses
/// some of them.
pub(crate) const EXTENSION_BIT: u8 = 0b1000;

//= 5040-4.1-6: Opcode field that MUST be used for each RDMA Message.
//= 7306-4.1-2: Opcode field: Set to one of the values in
/// RDMA Message Opcode (RFC 5040 s4.1, Figure 4; RFC 7306 s4.1, Figure 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0,
    /// RDMA Read Request.
    ReadRequest = 1,
    /// RDMA Read Response.
    ReadResponse = 2,
    /// Send.
    Send = 3,
    /// Send with Invalidate.
    SendInvalidate = 4,
    /// Send with Solicited Event.
    SendSe = 5,
    /// Send with Solicited Event and Invalidate.
    SendSeInvalidate = 6,
    /// Terminate.
    Terminate = 7,
    /// Immediate Data.
    Immediate = 8,
    /// Immediate Data with Solicited Event.
    ImmediateSe = 9,
    /// Atomic Request.
    AtomicRequest = 10,
    /// Atomic Response.
    AtomicResponse = 11,
    /// Send with immediate data. No RFC has it, and both ends have to agree to it (see
    /// [`Offer::send_immediate`](crate::mpa::Offer::send_immediate)). The data are where a Send
    /// with Invalidate has its STag.
    SendImmediate = 12,
    /// Send with Solicited Event and immediate data, likewise.
    SendSeImmediate = 13,
}

impl Opcode {
    /// The opcode in an RDMAP Control Field, `None` if it is none (1110b, 1111b).
    #[inline]
    pub const fn from_control(control: u8) -> Option<Self> {
        Some(match control & 0x0f {
            0 => Self::Write,
            1 => Self::ReadRequest,
            2 => Self::ReadResponse,
            3 => Self::Send,
            4 => Self::SendInvalidate,
            5 => Self::SendSe,
            6 => Self::SendSeInvalidate,
            7 => Self::Terminate,
            8 => Self::Immediate,
            9 => Self::ImmediateSe,
            10 => Self::AtomicRequest,
            11 => Self::AtomicResponse,
            12 => Self::SendImmediate,
            13 => Self::SendSeImmediate,
            _ => return None,
        })
    }

    //= 5040-4.1-2: the first octet MUST be as defined in Figure
    //= 5040-4.1-9: MUST be set to zero by sender, ignored by the receiver.
    /// The RDMAP Control Field of a message with this opcode.
    ///
    /// "Bits 26-27; Reserved. MUST be set to zero by sender" (RFC 5040 s4.1).
    #[inline]
    pub const fn control(self) -> u8 {
        VERSION_BITS | self as u8
    }

    //= 5040-4.1-5: of DDP Fields", MUST be used to define the
    //= 5040-4.1-7: Tagged Offset fields MUST be provided for each RDMA Message.
    //= 7306-5.2-1: MUST use the same Queue Number as RDMA Read Requests
    //= 7306-5.2-2: MUST set Queue Number (QN) to 3 in
    //= 7306-5.2.1-13: An Atomic Operation Request Message MUST reference the RDMA Read Request
    //= 7306-5.2.2-3: An Atomic Operation Response Message MUST reference the Queue Number
    //= 7306-6.3-5: the Local Peer's RDMAP Layer MUST request that the DDP layer set
    //= 7306-5-4, 7306-5.2.1-14, 7306-5.2.2-4
    /// The untagged queue that messages of this opcode use, `None` for tagged ones (Figure 4).
    #[inline]
    pub const fn queue(self) -> Option<Qn> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::Send | Self::SendInvalidate | Self::SendSe | Self::SendSeInvalidate => {
                Some(Qn::SEND)
            }
            Self::Immediate | Self::ImmediateSe => Some(Qn::SEND),
            Self::SendImmediate | Self::SendSeImmediate => Some(Qn::SEND),
            Self::ReadRequest | Self::AtomicRequest => Some(Qn::READ_REQUEST),
            Self::Terminate => Some(Qn::TERMINATE),
            Self::AtomicResponse => Some(Qn::ATOMIC_RESPONSE),
        }
    }

    /// Whether messages of this opcode go to Tagged Buffers (Figure 4).
    #[inline]
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::Write | Self::ReadResponse)
    }

    /// Whether an RDMAP Control Field is that of messages whose payload is a header, which RDMAP
    /// itself reads.
    #[inline]
    pub(crate) const fn has_header(control: u8) -> bool {
        const READ_REQUEST: u8 = Opcode::ReadRequest as u8;
        const TERMINATE: u8 = Opcode::Terminate as u8;
        const ATOMIC_RESPONSE: u8 = Opcode::AtomicResponse as u8;
        matches!(control & 0x0f, READ_REQUEST | TERMINATE..=ATOMIC_RESPONSE)
    }

    /// Whether the message is Immediate Data, with or without Solicited Event.
    #[inline]
    pub const fn is_immediate(self) -> bool {
        matches!(self, Self::Immediate | Self::ImmediateSe)
    }

    /// Whether the message is a Send with immediate data, with or without Solicited Event.
    #[inline]
    pub const fn is_send_immediate(self) -> bool {
        matches!(self, Self::SendImmediate | Self::SendSeImmediate)
    }

    /// The one of the four Send opcodes that has these properties.
    #[inline]
    pub const fn send(solicited: bool, invalidate: bool) -> Self {
        match (solicited, invalidate) {
            (false, false) => Self::Send,
            (false, true) => Self::SendInvalidate,
            (true, false) => Self::SendSe,
            (true, true) => Self::SendSeInvalidate,
        }
    }

    //= 7306-6.1-2
    /// Whether the message asks for an Event at the Data Sink.
    #[inline]
    pub const fn is_solicited(self) -> bool {
        matches!(
            self,
            Self::SendSe | Self::SendSeInvalidate | Self::ImmediateSe | Self::SendSeImmediate
        )
    }

    /// Whether the message carries an Invalidate STag.
    #[inline]
    pub const fn is_invalidating(self) -> bool {
        matches!(self, Self::SendInvalidate | Self::SendSeInvalidate)
    }
}
