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

/// As [`admit`], of a segment of Immediate Data, which end `end` octets in.
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
