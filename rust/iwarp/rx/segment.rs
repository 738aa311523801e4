// SPDX-License-Identifier: GPL-2.0

//! A segment that has passed the rules, and what it means when it is complete.

use super::fault::Refused;
use super::Event;
use crate::rdmap::Opcode;
use crate::types::Stag;

/// The use of the open segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It goes to the handler, which has accepted the segment.
    Place,
    /// There is no payload, and the handler is not to see the segment.
    Skip,
    /// It is a header, or Immediate Data.
    Gather,
}

/// A segment whose header has passed all checks. One is kept for each FPDU, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The message it belongs to.
    pub(super) opcode: Opcode,
    /// The use of its payload.
    pub(super) action: Action,
    /// L flag.
    pub(super) last: bool,
    /// Length of the message up to the end of this segment.
    pub(super) end: u32,
    /// Invalidate STag field; valid in Sends that invalidate, or have immediate data.
    pub(super) invalidate: Stag,
    /// The Send is the RTR.
    pub(super) rtr: bool,
}

impl Segment {
    /// What a handler refuses if it refuses to place this segment.
    pub(super) fn refused_placement(&self) -> Refused {
        if self.opcode.is_tagged() {
            Refused::Tagged
        } else {
            Refused::Send
        }
    }

    /// What a handler refuses if it refuses the message that this segment completes.
    pub(super) fn refused_delivery(&self) -> Refused {
        match self.opcode {
            Opcode::Write | Opcode::ReadResponse => Refused::Tagged,
            Opcode::ReadRequest => Refused::ReadRequest,
            Opcode::AtomicRequest => Refused::AtomicRequest,
            Opcode::AtomicResponse => Refused::AtomicResponse,
            Opcode::Immediate | Opcode::ImmediateSe => Refused::Send,
            Opcode::SendImmediate | Opcode::SendSeImmediate => Refused::Send,
            Opcode::Send | Opcode::SendSe => Refused::Send,
            Opcode::SendInvalidate | Opcode::SendSeInvalidate => Refused::SendInvalidate,
            Opcode::Terminate => Refused::Other,
        }
    }

    //= 5040-5.2.2-4: The RDMAP layer MUST Deliver the RDMA Read Response
    //= 5040-5.3-10: the RDMAP layer MUST:
    //= 5041-4.2-3: At the Data Sink, DDP MUST provide the RsvdULP field to
    //= 5041-4.3-3: At the Data Sink, DDP MUST provide RsvdULP field to the
    //= 5041-4.3-5: implementation is NOT REQUIRED to verify that the same
    //= 5041-5.4-2: At the Data Sink, DDP MUST provide the ULP Message Length
    //= 5041-5.4-3: At the Data Sink, DDP MUST provide the RsvdULP Field of
    //= 5040-4.1-10
    /// The event of a message whose last segment this is, `None` for those that carry a header of
    /// their own.
    #[inline]
    pub(super) fn event(&self) -> Option<Event> {
        Some(match self.opcode {
            Opcode::Write => Event::Write { len: self.end },
            Opcode::ReadResponse => Event::ReadResponse { len: self.end },
            Opcode::Send if self.rtr => Event::Rtr,
            Opcode::Send | Opcode::SendSe | Opcode::SendInvalidate | Opcode::SendSeInvalidate => {
                Event::Recv {
                    // RFC 5041 s5.4: "The ULP Message Length may be calculated by adding the MO and
                    // the ULP Payload length in the last DDP Segment".
                    len: self.end,
                    solicited: self.opcode.is_solicited(),
                    invalidate: self.opcode.is_invalidating().then_some(self.invalidate),
                }
            }
            Opcode::SendImmediate | Opcode::SendSeImmediate => Event::RecvImmediate {
                len: self.end,
                solicited: self.opcode.is_solicited(),
                data: self.invalidate.0.to_be_bytes(),
            },
            Opcode::ReadRequest
            | Opcode::Terminate
            | Opcode::Immediate
            | Opcode::ImmediateSe
            | Opcode::AtomicRequest
            | Opcode::AtomicResponse => return None,
        })
    }
}
