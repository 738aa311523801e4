// SPDX-License-Identifier: GPL-2.0

//! The rules for a segment of an untagged message: its queue, number and place in the message.

use super::Rules;
use crate::ddp::UntaggedHeader;
use crate::rdmap::{
    Opcode, ATOMIC_REQUEST_LEN, ATOMIC_RESPONSE_LEN, IMMEDIATE_LEN, READ_REQUEST_LEN,
};
use crate::rx::fault::{Reason, Refused};
use crate::rx::segment::{Action, Segment};
use crate::rx::{Handler, Placement, Refusal, Target};
use crate::types::{Msn, Qn, Stag};

impl Rules {
    //= 5040-5.2.1-3: One RDMA Read Request Message MUST consume one Untagged Buffer.
    //= 5040-5.3-3: One Send Message Type MUST consume one Untagged Buffer.
    //= 5040-5.3-7: A zero-length Send Message Type MUST consume an Untagged Buffer at
    //= 5040-7.2-6: The DDP layer MUST validate all Untagged DDP Segment fields.
    //= 5041-4.1-2: this DDP Segment MUST be Placed into an Untagged Buffer.
    //= 5041-4.3-8: sequence number that MUST be increased by one (modulo
    //= 5041-4.3-11: specific DDP message MUST contain the same value for this field.
    //= 5041-5.2-2: The ULP Message Length MUST be less than 2^32.
    //= 5041-5.3-4: MUST Deliver DDP Messages to the ULP in the
    //# deviates: a Read Response under way and a Send or Read Request are delivered as each ends,
    //# see *Delivery of interleaved messages* above
    //= 5041-5.4-1b: all of the DDP Segments of the DDP Message
    //= 5041-7.1-1: the DDP Segment MUST be validated before Placement by verifying:
    //= 5041-7.1-1a: The QN is valid for this stream.
    //= 5041-7.1-1b: The QN and MSN have an associated buffer that
    //= 5041-7.1-1c: The MO falls in the range of legal offsets
    //= 5041-7.1-1d: The sum of the DDP Segment payload length and
    //= 5041-7.1-1e: The Message Sequence Number falls in the range of
    //= 7306-6.3-4: MUST be Delivered to the Remote Peer's ULP in the
    //= 7306-6.4-1: Ordering and completion rules for Immediate Data are the same
    //= 7306-8.2-2: The DDP layer MUST validate all DDP Segment fields.
    //= 5040-4.1-5, 5041-4.3-4, 5041-4.3-13, 7306-4.1-3
    #[inline]
    pub(super) fn open_untagged<H: Handler>(
        &mut self,
        hdr: &UntaggedHeader,
        opcode: Opcode,
        len: u32,
        h: &mut H,
    ) -> Result<Segment, Reason> {
        // RFC 5041 s7.1: "The QN is valid for this stream."
        // Figure 4 of RFC 5040: each opcode has its queue, or none if it is tagged.
        if opcode.queue() != Some(hdr.qn) {
            let last = if self.extensions {
                Qn::ATOMIC_RESPONSE
            } else {
                Qn::TERMINATE
            };
            return Err(if hdr.qn.0 > last.0 {
                Reason::InvalidQn
            } else {
                Reason::OpcodeNotOfQueue
            });
        }
        if opcode == Opcode::AtomicResponse {
            return self.open_atomic_response(hdr, len);
        }
        let terminate = opcode == Opcode::Terminate;
        let first = match self.untagged {
            _ if terminate => true,
            Some(op) if op != opcode => return Err(Reason::OpcodeChanged),
            Some(_) => false,
            // The one before still waits.
            None if self.behind_write => return Err(Reason::OpcodeChanged),
            None => true,
        };

        // RFC 5041 s7.1: "The Message Sequence Number falls in the range of legal Message Sequence
        // Numbers". TCP delivers in order, hence the only legal one is the next. A stream has a
        // single Terminate (RFC 5040 s5.4), which has the first.
        let msn = match hdr.qn {
            Qn::SEND => self.send_msn,
            Qn::READ_REQUEST => self.read_msn,
            _ => Msn::FIRST,
        };
        if hdr.msn != msn {
            return Err(Reason::MsnRange);
        }
        // RFC 5041 s5.2: "the MO MUST be set to the octet offset from the first octet in the
        // associated ULP Message (which is defined to be zero)". Segments in any other order than
        // that of rising MO, against the SHOULD of s5.3, are not accepted: the message could not be
        // known to be complete when its last segment is.
        let mo = if first { 0 } else { self.mo };
        if hdr.mo != mo {
            return Err(Reason::InvalidMo);
        }
        let end = mo.checked_add(len).ok_or(Reason::MessageTooLong)?;

        let rtr = self.rtr_send && opcode == Opcode::Send && len == 0 && hdr.last;
        let action = match hdr.qn {
            Qn::SEND if rtr => Action::Skip,
            Qn::SEND if opcode.is_immediate() => admit_immediate(h, first, hdr.last, end)?,
            Qn::SEND => {
                let placement = Placement {
                    target: Target::Recv { offset: mo },
                    len,
                    first,
                    last: hdr.last,
                };
                admit(h, &placement)?;
                Action::Place
            }
            // The untagged buffer of a request is as long as its header.
            Qn::READ_REQUEST if opcode == Opcode::AtomicRequest => {
                if end > ATOMIC_REQUEST_LEN as u32 {
                    return Err(Reason::AtomicTooLong);
                }
                Action::Gather
            }
            Qn::READ_REQUEST if end > READ_REQUEST_LEN as u32 => {
                return Err(Reason::ReadRequestTooLong);
            }
            _ => Action::Gather,
        };

        // A Terminate fits any segment (MULPDU is at least 128), and nothing after it counts.
        let last = hdr.last || terminate;
        if first {
            self.behind_write = self.tagged == Some(Opcode::Write) && !terminate;
        }
        self.untagged = (!last).then_some(opcode);
        self.mo = end;
        if last {
            match hdr.qn {
                Qn::SEND => self.send_msn = msn.next(),
                Qn::READ_REQUEST => self.read_msn = msn.next(),
                _ => {}
            }
        }
        Ok(Segment {
            opcode,
            action,
            last,
            end,
            invalidate: hdr.invalidate,
            rtr,
        })
    }

    //= 7306-5-5: the Message Sequence Number (MSN) will be used to locate
    //= 7306-4-2, 7306-8.2-2
    /// Checks the segment of an Atomic Response. It answers an operation of this end, so like a
    /// Read Response it may come between the segments of another message, and waits for none. A
    /// segment holds all of it (MULPDU is at least 128).
    #[cold]
    fn open_atomic_response(&mut self, hdr: &UntaggedHeader, len: u32) -> Result<Segment, Reason> {
        if hdr.msn != self.atomic_msn {
            return Err(Reason::MsnRange);
        }
        if hdr.mo != 0 {
            return Err(Reason::InvalidMo);
        }
        if !hdr.last || len != ATOMIC_RESPONSE_LEN as u32 {
            return Err(Reason::AtomicResponseLength);
        }
        self.atomic_msn = hdr.msn.next();
        Ok(Segment {
            opcode: Opcode::AtomicResponse,
            action: Action::Gather,
            last: true,
            end: len,
            invalidate: Stag(0),
            rtr: false,
        })
    }
}

/// Has the handler accept the segment of a Send or of Immediate Data.
#[inline]
fn admit<H: Handler>(h: &mut H, placement: &Placement) -> Result<(), Reason> {
    h.begin_segment(placement).map_err(|why| match why {
        Refusal::Wait if placement.first => Reason::Waits,
        why => Refused::Send.reason(why),
    })
}

//= 7306-6.3-3: One Immediate Data or Immediate Data with SE Message MUST
//= 7306-6.3-8: The Remote Peer MUST check that Immediate Data and Immediate
/// As [`admit`], of a segment of Immediate Data, which end `end` bytes in.
#[cold]
fn admit_immediate<H: Handler>(
    h: &mut H,
    first: bool,
    last: bool,
    end: u32,
) -> Result<Action, Reason> {
    if end > IMMEDIATE_LEN as u32 {
        return Err(Reason::ImmediateTooLong);
    }
    if first {
        let placement = Placement {
            target: Target::Immediate,
            len: 0,
            first,
            last,
        };
        admit(h, &placement)?;
    }
    Ok(Action::Gather)
}
