// SPDX-License-Identifier: GPL-2.0

//! Completes segments and messages: the events of those that carry a header, and the order of
//! delivery.

use super::{Phase, Receiver};
use crate::rdmap::{
    AtomicRequest, AtomicResponse, Immediate, Opcode, Terminate, ATOMIC_REQUEST_LEN, IMMEDIATE_LEN,
    READ_REQUEST_LEN, TERMINATE_MAX,
};
use crate::rx::fault::Reason;
use crate::rx::segment::{Action, Segment};
use crate::rx::{Event, Handler};
use crate::types::ReadRequest;

impl Receiver {
    //= 5040-5.3-4: Send Message Type MUST be Delivered to the Remote
    //= 5040-5.4-5: the RDMAP layer MUST guarantee placement of a single Terminate Message.
    //= 5040-5.4-6: A Terminate Message MUST be Delivered to the Remote
    //= 5040-5.5-1: Send Messages MUST be Delivered to the ULP at
    //= 5040-5.5-2: RDMA Read Response Messages MUST be Delivered to the ULP
    //= 5040-5.5-3: RDMA Read Requests, MUST NOT start processing at the
    //= 5040-5.5-7: incoming Send Message MUST be Delivered to the ULP
    //= 5040-5.5-8: specified Tagged Buffer) MUST be started only after the
    //= 5040-5.5-9: An RDMA Read operation MUST NOT be Completed at the
    //= 5041-4.1-7: DDP Message payload MUST be Delivered to the ULP after:
    //= 5041-5.3-3: MUST Deliver a DDP Message to the ULP at most once
    //= 5041-5.4-1: At the Data Sink, DDP MUST Deliver a DDP Message if
    //= 5041-5.4-1a: the last DDP Segment of the DDP Message had
    //= 5041-5.4-1c: all preceding DDP Messages have been Placed, and
    //# deviates: as 5041-5.3-4
    //= 5041-5.4-1d: each preceding DDP Message has been Delivered to the
    //# deviates: as 5041-5.3-4
    //= 7306-5.2.1-16: The Responder MUST process the Atomic Operation Request Messages in
    //= 7306-5.4-3: Atomic Operation Request Messages MUST NOT start processing at the
    //= 7306-5.4-4: Atomic Operation Response Messages MAY be generated at the Responder
    //= 7306-5.4-5: MUST be started only after the Atomic Operation Request Message
    //= 7306-5.4-6: Send Messages MAY be Completed at the Responder before prior
    //= 7306-5.4-7: An Atomic Operation MUST NOT be Completed at the Requester
    //= 7306-5.4-8a: the Atomic Operation Request Messages MUST be processed in the
    //= 5041-5.3-4, 5041-5.4-1b
    /// Completes a segment whose CRC is right, and its message if it is the last one.
    #[inline]
    pub(super) fn complete<H: Handler>(
        &mut self,
        mut segment: Segment,
        h: &mut H,
    ) -> Result<(), Reason> {
        if segment.action == Action::Place {
            h.end_segment()
                .map_err(|why| segment.refused_placement().reason(why))?;
        }
        if !segment.last {
            self.continues = segment.action == Action::Place;
            return Ok(());
        }
        if self.rules.behind_write && segment.opcode != Opcode::AtomicResponse {
            match self.in_order(segment, h)? {
                Some(next) => segment = next,
                None => return Ok(()),
            }
        }
        let event = match segment.event() {
            Some(event) => event,
            None => self.gathered(&segment)?,
        };
        h.deliver(event)
            .map_err(|why| segment.refused_delivery().reason(why))
    }

    //= 5041-5.3-4, 5041-5.4-1c, 5041-5.4-1d, 7306-5.4-3, 7306-5.4-5, 7306-6.3-4, 7306-6.4-1
    /// A message, whose last segment is `segment`, is complete, and an untagged one has begun
    /// behind an RDMA Write. The untagged message waits until the Write is delivered. Returns the
    /// last segment of the message to deliver next, if there is one.
    #[cold]
    fn in_order<H: Handler>(
        &mut self,
        segment: Segment,
        h: &mut H,
    ) -> Result<Option<Segment>, Reason> {
        if !segment.opcode.is_tagged() {
            self.held = Some((segment, self.hdr));
            return Ok(None);
        }
        self.rules.behind_write = false;
        let Some((held, hdr)) = self.held.take() else {
            return Ok(Some(segment));
        };
        h.deliver(Event::Write { len: segment.end })
            .map_err(|why| segment.refused_delivery().reason(why))?;
        // If the handler refuses the message that has waited, the Terminate has that one's header.
        (self.segment, self.hdr) = (Some(held), hdr);
        Ok(Some(held))
    }

    //= 7306-5.2.1-12: an error MUST be surfaced in response to delivery to
    //= 7306-8.2-5: On incoming Atomic requests the following additional validation MUST be
    //= 7306-4-1, 7306-5.2.2-7, 7306-6.2-1, 7306-6.3-8
    /// The event of a message whose payload was gathered, of which `segment` is the last.
    #[inline(never)]
    fn gathered(&mut self, segment: &Segment) -> Result<Event, Reason> {
        match segment.opcode {
            Opcode::ReadRequest => self.read_request(segment),
            Opcode::AtomicRequest => {
                let header = self.header::<ATOMIC_REQUEST_LEN>(segment);
                let header = header.ok_or(Reason::AtomicTooShort)?;
                // RFC 7306 s5.2.1 rule 4: an error is surfaced for "an Atomic Operation Code that
                // the RNIC does not support".
                let agreed = self.rules.send_immediate;
                let request = AtomicRequest::from_bytes(header)
                    .filter(|request| agreed || !request.op.needs_agreement())
                    .ok_or(Reason::AtomicUnknown)?;
                Ok(Event::AtomicRequest(request))
            }
            Opcode::AtomicResponse => {
                let response = AtomicResponse::from_bytes(&self.response);
                Ok(Event::AtomicResponse(response))
            }
            Opcode::Immediate | Opcode::ImmediateSe => {
                let data = self.header::<IMMEDIATE_LEN>(segment);
                Ok(Event::Immediate {
                    data: Immediate(*data.ok_or(Reason::ImmediateTooShort)?),
                    solicited: segment.opcode.is_solicited(),
                })
            }
            _ => {
                self.phase = Phase::Closed;
                let len = (segment.end as usize).min(TERMINATE_MAX);
                let body = self.body.get(..len).unwrap_or_default();
                let term = Terminate::parse(body).ok_or(Reason::TerminateTooShort)?;
                Ok(Event::Terminate(term))
            }
        }
    }

    /// The header that the message which `segment` ends has as its payload, if that has `N` bytes.
    fn header<const N: usize>(&self, segment: &Segment) -> Option<&[u8; N]> {
        let header = self.body.first_chunk()?;
        (segment.end as usize == N).then_some(header)
    }

    //= 5040-5.2.1-4: The Remote Peer's RDMAP layer MUST process an RDMA Read Request Message.
    //= 5040-5.2.1-13: Data Source RDMAP MUST validate the Data Source STag
    //= 5040-5.2.1-14: MUST NOT validate the Data Source STag and Data
    //= 5040-7.2-13: Read Message Size MUST NOT cause the Data Source
    /// The Read Request whose header is complete.
    fn read_request(&self, segment: &Segment) -> Result<Event, Reason> {
        let header = self.header::<READ_REQUEST_LEN>(segment);
        let request = ReadRequest::from_bytes(header.ok_or(Reason::ReadRequestTooShort)?);
        // RFC 5040 s7.2 rule 4e for "non-zero length RDMA Read Request Messages": the sum "MUST NOT
        // cause the Data Source Tagged Offset to wrap". STag and bounds are the handler's to check.
        if request.len != 0 && request.src_to.checked_add(request.len).is_none() {
            return Err(Reason::ReadToWrap);
        }
        Ok(Event::ReadRequest(request))
    }
}
