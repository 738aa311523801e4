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
                let request = AtomicRequest::from_bytes(header).ok_or(Reason::AtomicUnknown)?;
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

    /// The header that the message which `segment` ends has as its payload, if that has `N` octets.
    fn header<const N: usize>(&self, segment: &Segment) -> Option<&[u8; N]> {
        let header = self.body.first_chunk()?;
        (segment.end as usize == N).then_some(header)
    }

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
