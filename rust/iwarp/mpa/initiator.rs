// SPDX-License-Identifier: GPL-2.0

//! The initiator's part in the negotiation of a connection.

use super::enhanced::{Enhanced, NO_NEGOTIATION};
use super::frame::{encode, Frame, FrameKind, Header};
use super::rtr::RtrSet;
use super::terms::{depth, uses_crcs, Agreed, Limits, MpaError, Offer};
use crate::rdmap::TermCode;

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
    //= 5044-7.1.1-14: the specification, senders MUST set this field to one.
    //# deviates: an initiator sends two, with which RFC 6581 s6 updates this, unless
    //# mpa_revision=1 or the peer knows no two; a Reply has the number of its Request
    //= 5044-7.1.2-1: the MPA implementation MUST send a valid MPA Request Frame.
    //= 6581-6-2: establishment feature, this MUST be set to two or higher.
    //= 6581-9.2-1: The initiator MUST set Control Flag A to 1
    //= 6581-9.2-10: The initiator MUST set Control Flag A to 0
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

    //= 5044-7.1.1-7: that Markers are REQUIRED in FPDUs sent from the Initiator.
    //= 5044-7.1.2-5: MPA Initiator mode implementations MUST receive and validate an MPA Reply
    //= 5044-7.1.2-7: '1', the implementation MUST exit MPA, leaving the TCP connection open.
    //# deviates: the connection is closed, as nobody but the driver has it
    /// Takes the responder's Reply. `limits` is what this end can provide at most.
    pub fn reply(self, frame: &Frame<'_>, limits: Limits) -> Result<Agreed, MpaError> {
        if frame.kind() != FrameKind::Reply {
            return Err(MpaError::SameRole);
        }
        if frame.rejected() {
            return Err(MpaError::Rejected);
        }
        let mut agreed = Agreed {
            crc: uses_crcs(self.crc, frame.crc()),
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

    //= 6581-9.1-3: Thus, the TERM message MUST contain Layer 2, Error Type
    //= 6581-9.1-4: responder, the initiator MUST set its IRD at least
    //= 6581-9.1-5: required IRD, it MUST send a TERM message to
    //= 6581-9.1-9: The initiator MUST leave its local endpoint ORD value
    //= 6581-9.1-11: The initiator MUST leave its local endpoint IRD value
    //= 6581-9.2-8: indications, then it MUST send a TERM message to
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
        agreed.rtr_any = self.rtr.allowed_by(peer);
        agreed.rtr = agreed.rtr_any.preferred();
        match agreed.rtr {
            Some(_) => Ok(()),
            None => Err(incompatible(agreed, TermCode::MPA_NO_MATCHING_RTR)),
        }
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
