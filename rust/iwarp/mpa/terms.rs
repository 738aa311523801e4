// SPDX-License-Identifier: GPL-2.0

//! The terms of a connection, offered, asked for and agreed on (RFC 5044 s7.1.2, RFC 6581 s9),
//! among them whether there are CRCs. What the driver offers is in `rsiw/cm/offer.rs`.

use core::fmt;

use super::enhanced::{MAX_DEPTH, NO_NEGOTIATION};
use super::rtr::{Rtr, RtrSet};
use crate::rdmap::TermCode;

//= 5044-1.2-2: however, CRCs MUST be enabled unless it is clear
//= 5044-4.4-2: the MPA provider is not REQUIRED to support an administrator's request
//= 6581-10-3: The initiator MUST NOT use the enhanced RDMA connection
//# revision 2 is asked for, as the depths are wanted, unless the module's parameter says 1
/// One end's part in the negotiation.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// MPA revision of a Request: 1, or 2 for enhanced connection setup. A Reply has the revision
    /// of its Request.
    pub revision: u8,
    /// Use CRCs. "The default configuration for a connection MUST be to use CRCs"
    /// (RFC 5044 s4.4).
    pub crc: bool,
    /// Inbound read queue depth, 0 to 0x3FFE, or [`NO_NEGOTIATION`].
    pub ird: u16,
    /// Outbound read queue depth, 0 to 0x3FFE, or [`NO_NEGOTIATION`].
    pub ord: u16,
    /// RTR indications this end supports. Empty in a Request: client-server model. Empty in an
    /// answer: no preference.
    pub rtr: RtrSet,
    /// Offer FPDUs longer than a TCP segment, by a bit that RFC 5044 reserves. In an answer: agree
    /// to them, by that bit and another.
    pub large_fpdu: bool,
    /// Take Sends with immediate data, which RDMAP has not. A Request says so only if it offers
    /// large FPDUs, too.
    pub send_immediate: bool,
    /// The ULP's Private Data, at most 512 bytes, with revision 2 at most 508.
    pub private_data: &'a [u8],
}

/// Read queue depths that this end can provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest IRD, 0 if the ULP wants no Reads; also the IRD if it is not negotiated.
    pub ird: u16,
    /// ORD if it is not negotiated.
    pub ord: u16,
}

//= 6581-9.1-1
/// The terms that a Request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// MPA revision, 1 or 2.
    pub revision: u8,
    /// The initiator's IRD: the most that this end's ORD may be. [`NO_NEGOTIATION`] also if the
    /// Request is not enhanced.
    pub ird: u16,
    /// The initiator's ORD: the least that this end's IRD should be. [`NO_NEGOTIATION`] also if the
    /// Request is not enhanced.
    pub ord: u16,
    /// The initiator is going to send an RTR.
    pub peer_to_peer: bool,
    /// The RTR indications it can send.
    pub rtr: RtrSet,
}

//= 5040-6.1-2: The RDMAP layer MUST provide the maximum number of
//= 5040-6.1-3: The RDMAP layer MUST provide the maximum number of
//= 5044-3-7: MPA MUST provide the protocol version negotiated with its
//= 6581-9.1-1: The responder and initiator MUST pass the peer's provided IRD
//# deviates: with a Reply that accepts, the consumer gets the values agreed on: iw_cm has one
//# pair, which consumers take for what they may use
//= 5044-4.3-1
/// Result of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// CRCs are generated and checked.
    pub crc: bool,
    /// The peer requires markers in what this end sends.
    pub tx_markers: bool,
    /// This end's inbound read queue depth. A Read that is an RTR comes on top of a depth of 0.
    pub ird: u16,
    /// This end's outbound read queue depth. A Read that is an RTR comes on top of a depth of 0.
    pub ord: u16,
    /// Initiator: send this before anything else. Responder: the likely one of `rtr_any`.
    pub rtr: Option<Rtr>,
    /// Responder: the peer's first message is one of these. "\[T\]he initiator selects one of the
    /// supported RDMA message types as the RTR indication at the initiator's sole discretion"
    /// (RFC 6581 s1.1).
    pub rtr_any: RtrSet,
    /// Both ends take FPDUs longer than a TCP segment.
    pub large_fpdu: bool,
    /// Both ends take Sends with immediate data.
    pub send_immediate: bool,
    /// MPA revision, 1 or 2.
    pub revision: u8,
    /// The peer's IRD as it sent it, for the ULP; [`NO_NEGOTIATION`] if it sent none.
    pub peer_ird: u16,
    /// The peer's ORD as it sent it, for the ULP; [`NO_NEGOTIATION`] if it sent none.
    pub peer_ord: u16,
}

//= 5044-4.4-5: an MPA instance MUST continue generating and checking CRCs
//= 5044-4.4-6: require CRCs, it MUST turn off CRC checking immediately
//= 5044-7.1.1-10: Reply Frame, CRCs MUST not be checked and need
//= 5044-7.1.1-11: Reply Frame, CRCs MUST be generated and checked by both endpoints.
/// Whether a connection uses CRCs ([`Agreed::crc`]), by the bits of the Request and of the Reply.
///
/// RFC 5044 s7.1.1: "When this bit is '1' in either the MPA Request Frame or MPA Reply Frame, CRCs
/// MUST be generated and checked by both endpoints."
pub(super) const fn uses_crcs(request: bool, reply: bool) -> bool {
    request || reply
}

//= 5044-8-1
/// The reason for which there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpaError {
    /// The frame has no MPA key.
    Key,
    /// Both ends started in the same role.
    SameRole,
    /// An MPA revision with which this end does not interoperate.
    Revision(u8),
    /// A PD_Length above 512, or too short for the enhanced data.
    PrivateDataLength(u16),
    /// The Reply is enhanced and the Request was not, or the reverse.
    ReplyFormat,
    /// The responder rejects the connection; its Private Data are in the frame.
    Rejected,
    /// The responder accepts on terms that this end cannot meet.
    Incompatible {
        /// The error that the Terminate reports.
        code: TermCode,
        /// FPDUs carry CRCs.
        crc: bool,
        /// FPDUs sent carry markers.
        tx_markers: bool,
    },
    /// The caller's Private Data do not fit the frame.
    PrivateDataTooLong,
    /// The caller's buffer does not hold the frame.
    BufferTooSmall,
}

/// The consequence of an [`MpaError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Close the TCP connection and report the error locally. The peer is told nothing.
    Close,
    /// Report the rejection; the connection may be closed.
    ReportRejected,
    /// Send a Terminate as the first FPDU, then close.
    Terminate(TermCode),
    /// A mistake of the caller; nothing has been sent.
    Correct,
}

impl MpaError {
    //= 5044-7.1.2-3: formatted, the implementation MUST close the TCP connection and exit MPA.
    //= 5044-7.1.2-6: formatted, the implementation MUST close the TCP connection and exit MPA.
    //= 5044-8-2: the TCP connection MUST be immediately closed.
    //= 5044-7.1.1-16, 5044-7.1.2-13
    /// The action that the error calls for.
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Key
            | Self::SameRole
            | Self::Revision(_)
            | Self::PrivateDataLength(_)
            | Self::ReplyFormat => Remedy::Close,
            Self::Rejected => Remedy::ReportRejected,
            Self::Incompatible { code, .. } => Remedy::Terminate(*code),
            Self::PrivateDataTooLong | Self::BufferTooSmall => Remedy::Correct,
        }
    }
}

impl fmt::Display for MpaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("not an MPA frame"),
            Self::SameRole => f.write_str("both ends in the same MPA role"),
            Self::Revision(rev) => write!(f, "MPA revision {rev} is not supported"),
            Self::PrivateDataLength(len) => write!(f, "bad private data length {len}"),
            Self::ReplyFormat => f.write_str("MPA reply does not have the format of the request"),
            Self::Rejected => f.write_str("connection rejected by peer"),
            Self::Incompatible { code, .. } => write!(f, "MPA terms cannot be met: {code}"),
            Self::PrivateDataTooLong => f.write_str("private data too long"),
            Self::BufferTooSmall => f.write_str("buffer too small for MPA frame"),
        }
    }
}

/// A depth that fits its field: larger values become the largest.
pub(super) fn depth(value: u16) -> u16 {
    if value > NO_NEGOTIATION {
        MAX_DEPTH
    } else {
        value
    }
}
