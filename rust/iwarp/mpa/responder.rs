// SPDX-License-Identifier: GPL-2.0

//! The responder's part in the negotiation of a connection.

use super::enhanced::{Enhanced, MAX_DEPTH, NO_NEGOTIATION};
use super::frame::{encode, Frame, FrameKind, Header};
use super::rtr::{Rtr, RtrSet};
use super::terms::{depth, uses_crcs, Agreed, Asked, MpaError, Offer};

//= 5044-7.1.2-2: the MPA implementation MUST wait until an MPA Request
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
    //= 6581-10-4: The responder MUST continue to accept unenhanced connection requests.
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

    //= 5044-7.1.1-6: that Markers are REQUIRED in FPDUs sent from the Responder.
    //= 6581-10-1: an enhanced responder is REQUIRED to respond with an enhanced
    //= 6581-10-2: All responders are REQUIRED to issue unenhanced RDMA connection
    //= 6581-10-5: MPA message, it MUST respond with an enhanced MPA message.
    //= 6581-10-6: to 0), it MUST respond with an unenhanced MPA message.
    /// Accepts: writes the MPA Reply Frame to the front of `out` and returns its length.
    ///
    /// This end must receive the initiator's first FPDU before it sends any (RFC 5044 s7.1.2
    /// rule 4).
    pub fn accept(self, answer: &Offer<'_>, out: &mut [u8]) -> Result<(Agreed, usize), MpaError> {
        // If the Request's bit is set, the Reply's is, too.
        let crc = uses_crcs(self.crc, answer.crc);
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

    //= 6581-10-1, 6581-10-2
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

    //= 5044-7.1.1-14
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

//= 6581-9.1-2: The responder MUST set its ORD at most to
//= 6581-9.1-8: The responder MUST respond to an initiator ORD value
//= 6581-9.1-10: The responder MUST respond to an initiator IRD value
//= 6581-9.2-4: then the responder MUST set Control Flag A to
//= 6581-9.2-11: The responder MUST set Control Flag A to 0
/// Answers enhanced data with enhanced data.
fn respond(agreed: &mut Agreed, peer: Enhanced, answer: &Offer<'_>) -> Enhanced {
    agreed.peer_ird = peer.ird;
    agreed.peer_ord = peer.ord;

    let mut rtr = RtrSet::EMPTY;
    if peer.peer_to_peer {
        rtr = answer.rtr.answer_to(peer.rtr);
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
