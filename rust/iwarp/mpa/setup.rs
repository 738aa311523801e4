// SPDX-License-Identifier: GPL-2.0

//! Negotiation of a connection (RFC 5044 s7.1.2, RFC 6581 s9).

use core::fmt;

use super::enhanced::{Enhanced, MAX_DEPTH, NO_NEGOTIATION};
use super::frame::{encode, Frame, FrameKind, Header};
use super::rtr::{Rtr, RtrSet};
use crate::rdmap::TermCode;

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
    /// The ULP's Private Data, at most 512 octets, with revision 2 at most 508.
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

/// The initiator, which waits for the Reply.
#[derive(Clone, Copy, Debug)]
pub struct Initiator {
    revision: u8,
    crc: bool,
    ird: u16,
    ord: u16,
    rtr: RtrSet,
    large_fpdu: bool,
    send_immediate: bool,
}

impl Initiator {
    /// Writes the MPA Request Frame to the front of `out` and returns its length.
    pub fn request(offer: &Offer<'_>, out: &mut [u8]) -> Result<(Self, usize), MpaError> {
        let this = Self {
            revision: offer.revision,
            crc: offer.crc,
            ird: depth(offer.ird),
            ord: depth(offer.ord),
            rtr: offer.rtr,
            large_fpdu: offer.large_fpdu,
            send_immediate: offer.large_fpdu && offer.send_immediate,
        };
        let enhanced = match offer.revision {
            1 => None,
            2 => Some(Enhanced {
                peer_to_peer: !offer.rtr.is_empty(),
                rtr: offer.rtr,
                ird: this.ird,
                ord: this.ord,
            }),
            other => return Err(MpaError::Revision(other)),
        };
        let header = Header {
            markers: false,
            crc: offer.crc,
            rejected: false,
            large_fpdu: offer.large_fpdu,
            knows_large_fpdu: false,
            send_immediate: this.send_immediate,
            enhanced: false,
            revision: offer.revision,
            pd_length: 0,
        };
        let len = encode(
            FrameKind::Request,
            header,
            enhanced,
            offer.private_data,
            out,
        )?;
        Ok((this, len))
    }

    /// Takes the responder's Reply. `limits` is what this end can provide at most.
    pub fn reply(self, frame: &Frame<'_>, limits: Limits) -> Result<Agreed, MpaError> {
        if frame.kind() != FrameKind::Reply {
            return Err(MpaError::SameRole);
        }
        if frame.rejected() {
            return Err(MpaError::Rejected);
        }
        let mut agreed = Agreed {
            // RFC 5044 s7.1.1: "When this bit is '1' in either the MPA Request Frame or MPA Reply
            // Frame, CRCs MUST be generated and checked by both endpoints."
            crc: self.crc || frame.crc(),
            tx_markers: frame.markers(),
            ird: negotiated_or(self.ird, limits.ird),
            ord: negotiated_or(self.ord, limits.ord),
            rtr: None,
            rtr_any: RtrSet::EMPTY,
            large_fpdu: self.large_fpdu && frame.large_fpdu(),
            send_immediate: self.send_immediate && frame.send_immediate(),
            revision: self.revision,
            peer_ird: NO_NEGOTIATION,
            peer_ord: NO_NEGOTIATION,
        };
        match (self.revision, frame.enhanced()) {
            (1, None) => {}
            (2, Some(peer)) => self.negotiate(&mut agreed, peer, limits)?,
            // RFC 6581 s10: "If the responder receives an enhanced MPA message, it MUST respond
            // with an enhanced MPA message", and the same for unenhanced ones.
            _ => return Err(MpaError::ReplyFormat),
        }
        Ok(agreed)
    }

    /// Negotiates read queue depths and RTR with an enhanced responder.
    fn negotiate(
        self,
        agreed: &mut Agreed,
        peer: Enhanced,
        limits: Limits,
    ) -> Result<(), MpaError> {
        let incompatible = |agreed: &Agreed, code| MpaError::Incompatible {
            code,
            crc: agreed.crc,
            tx_markers: agreed.tx_markers,
        };
        agreed.peer_ird = peer.ird;
        agreed.peer_ord = peer.ord;

        // RFC 6581 s9.1: "the initiator MUST set its IRD at least to the responder ORD and its ORD
        // at most to the responder IRD." Either stays as it is if the responder's value is 0x3FFF.
        if peer.ird != NO_NEGOTIATION {
            agreed.ord = agreed.ord.min(peer.ird);
        }
        if peer.ord != NO_NEGOTIATION && peer.ord > agreed.ird {
            // "If the initiator does not have sufficient resources for the required IRD, it MUST
            // send a TERM message".
            if peer.ord > limits.ird {
                return Err(incompatible(agreed, TermCode::MPA_INSUFFICIENT_IRD));
            }
            agreed.ird = peer.ord;
        }

        // RFC 6581 s9.2: "Upon receiving the MPA Accept Frame with Control Flag A set to 1, the
        // initiator MUST generate one of the negotiated RTR indications." A responder that leaves
        // it clear wants none: it knows only the client-server model, in which the initiator sends
        // first, as this end can.
        if self.rtr.is_empty() || !peer.peer_to_peer {
            return Ok(());
        }
        // "If the initiator is not able to generate any of the responder-supported RTR indications,
        // then it MUST send a TERM message".
        agreed.rtr_any = self.rtr & peer.rtr;
        if peer.ird == 0 {
            agreed.rtr_any = agreed.rtr_any.without(Rtr::Read);
        }
        agreed.rtr = agreed.rtr_any.preferred();
        match agreed.rtr {
            Some(_) => Ok(()),
            None => Err(incompatible(agreed, TermCode::MPA_NO_MATCHING_RTR)),
        }
    }
}

/// The responder, which has received a Request and has to send the Reply.
#[derive(Clone, Copy, Debug)]
pub struct Responder {
    revision: u8,
    crc: bool,
    markers: bool,
    large_fpdu: bool,
    send_immediate: bool,
    peer: Option<Enhanced>,
}

impl Responder {
    /// Takes the initiator's Request.
    pub fn request(frame: &Frame<'_>) -> Result<(Self, Asked), MpaError> {
        if frame.kind() != FrameKind::Request {
            return Err(MpaError::SameRole);
        }
        let peer = frame.enhanced();
        let this = Self {
            revision: frame.revision(),
            crc: frame.crc(),
            markers: frame.markers(),
            large_fpdu: frame.large_fpdu(),
            send_immediate: frame.send_immediate(),
            peer,
        };
        let asked = Asked {
            revision: frame.revision(),
            ird: peer.map_or(NO_NEGOTIATION, |p| p.ird),
            ord: peer.map_or(NO_NEGOTIATION, |p| p.ord),
            peer_to_peer: peer.is_some_and(|p| p.peer_to_peer),
            rtr: peer.map_or(RtrSet::EMPTY, |p| p.rtr),
        };
        Ok((this, asked))
    }

    /// Accepts: writes the MPA Reply Frame to the front of `out` and returns its length.
    ///
    /// This end must receive the initiator's first FPDU before it sends any (RFC 5044 s7.1.2
    /// rule 4).
    pub fn accept(self, answer: &Offer<'_>, out: &mut [u8]) -> Result<(Agreed, usize), MpaError> {
        // Either bit turns CRCs on. If the Request's does, the Reply's is set, too.
        let crc = self.crc || answer.crc;
        let large_fpdu = self.large_fpdu && answer.large_fpdu;
        let send_immediate = self.send_immediate && answer.send_immediate;
        let mut agreed = Agreed {
            crc,
            tx_markers: self.markers,
            ird: answer.ird.min(MAX_DEPTH),
            ord: answer.ord.min(MAX_DEPTH),
            rtr: None,
            rtr_any: RtrSet::EMPTY,
            large_fpdu,
            send_immediate,
            revision: self.revision,
            peer_ird: NO_NEGOTIATION,
            peer_ord: NO_NEGOTIATION,
        };
        let enhanced = self.peer.map(|peer| respond(&mut agreed, peer, answer));
        let header = Header {
            large_fpdu,
            send_immediate,
            ..self.header(crc)
        };
        let len = encode(FrameKind::Reply, header, enhanced, answer.private_data, out)?;
        Ok((agreed, len))
    }

    /// Rejects: writes the MPA Reply Frame to the front of `out` and returns its length.
    pub fn reject(self, private_data: &[u8], out: &mut [u8]) -> Result<usize, MpaError> {
        // The depths that the initiator asked for, as this end's IRD and ORD.
        let (ird, ord) = self.peer.map_or((0, 0), |p| (p.ord, p.ird));
        self.reject_for(ird, ord, private_data, out)
    }

    /// As [`reject`](Self::reject), and tells which IRD and ORD this end would have needed.
    ///
    /// RFC 6581 s9.1: "The responder MAY reject the connection request if the initiator IRD is not
    /// sufficient for the ULP-required ORD and specify the required ORD in the MPA Reject Frame
    /// responder ORD."
    pub fn reject_for(
        self,
        ird: u16,
        ord: u16,
        private_data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, MpaError> {
        let enhanced = self.peer.map(|peer| Enhanced {
            peer_to_peer: peer.peer_to_peer,
            rtr: if peer.rtr.is_empty() {
                RtrSet::ALL
            } else {
                peer.rtr
            },
            ird: depth(ird),
            ord: depth(ord),
        });
        let header = Header {
            rejected: true,
            ..self.header(self.crc)
        };
        encode(FrameKind::Reply, header, enhanced, private_data, out)
    }

    /// The header of a Reply to the Request. It never requires markers.
    fn header(&self, crc: bool) -> Header {
        Header {
            markers: false,
            crc,
            rejected: false,
            large_fpdu: false,
            knows_large_fpdu: self.large_fpdu,
            send_immediate: false,
            enhanced: false,
            revision: self.revision,
            pd_length: 0,
        }
    }
}

/// Answers enhanced data with enhanced data.
fn respond(agreed: &mut Agreed, peer: Enhanced, answer: &Offer<'_>) -> Enhanced {
    agreed.peer_ird = peer.ird;
    agreed.peer_ord = peer.ord;

    let mut rtr = RtrSet::EMPTY;
    if peer.peer_to_peer {
        let mine = if answer.rtr.is_empty() {
            RtrSet::ALL
        } else {
            answer.rtr
        };
        // RFC 6581 s9.2: "If the responder does not support any of the initiator-specified RTR
        // indication options, then the responder MUST set at least one RTR indication type option
        // it supports."
        rtr = match mine & peer.rtr {
            RtrSet::EMPTY => mine,
            both => both,
        };
        // An initiator that goes on sends one of those in the Reply, whatever it offered.
        agreed.rtr_any = rtr;
        agreed.rtr = rtr.preferred();
    }

    // RFC 6581 s9.1: "The responder MUST respond to an initiator ORD value of 0x3FFF by leaving its
    // local endpoint IRD value unchanged and setting the IRD to 0x3FFF in its reply message", and
    // the same for IRD and ORD.
    let ird = if peer.ord == NO_NEGOTIATION {
        NO_NEGOTIATION
    } else if rtr.contains(Rtr::Read) {
        // "[I]f the initiator ORD is 0 [...] and the responder supports use of a zero-length RDMA
        // Read RTR indication, then the responder IRD can be set to 1". The RTR is the only Read
        // then, so this end's IRD stays 0.
        agreed.ird.max(1)
    } else {
        agreed.ird
    };
    let ord = if peer.ird == NO_NEGOTIATION {
        NO_NEGOTIATION
    } else {
        // "The responder MUST set its ORD at most to the initiator IRD."
        agreed.ord = agreed.ord.min(peer.ird);
        agreed.ord
    };
    Enhanced {
        peer_to_peer: peer.peer_to_peer,
        rtr,
        ird,
        ord,
    }
}

/// A depth that fits its field: larger values become the largest.
fn depth(value: u16) -> u16 {
    if value > NO_NEGOTIATION {
        MAX_DEPTH
    } else {
        value
    }
}

/// This end's value of a depth: `offered`, or `local` if that left it open.
fn negotiated_or(offered: u16, local: u16) -> u16 {
    if offered == NO_NEGOTIATION {
        local
    } else {
        offered
    }
}
