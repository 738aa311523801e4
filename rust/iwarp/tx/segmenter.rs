// SPDX-License-Identifier: GPL-2.0

//! Segmentation of messages (RFC 5041 s5.2).

use crate::bytes::Fields;
use crate::ddp::{self, TaggedHeader, UntaggedHeader, TAGGED, TAGGED_LEN, UNTAGGED_LEN};
use crate::mpa::fpdu::{fpdu_len, LENGTH_LEN};
use crate::rdmap::{
    AtomicRequest, AtomicResponse, Immediate, Opcode, Terminate, ATOMIC_REQUEST_LEN,
    READ_REQUEST_LEN, TERMINATE_MAX,
};
use crate::types::{Msn, Qn, ReadRequest, Stag, TaggedOffset, MAX_ULPDU, MIN_MULPDU};

//= 5040-4.2-1: which RDMA Headers MUST be used on each RDMA
//= 5040-5.1-5: the Local Peer MUST use multiple RDMA Write Messages.
//= 5040-5.2-1: The RDMA Read operation MUST consist of a single RDMA
//= 5040-5.3-8: and Invalidate Message MUST reference an STag.
//= 5041-5.2-6: the Data Source MUST specify the STag and the
/// An RDMA message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Send, with Solicited Event, with Invalidate, or both.
    Send {
        /// Its number on QN 0: 1 for the first Send of the stream.
        msn: Msn,
        /// Ask for an Event at the peer.
        solicited: bool,
        /// STag that the peer is to invalidate.
        invalidate: Option<Stag>,
    },
    /// Send with immediate data, or with Solicited Event, too.
    SendImmediate {
        /// Its number on QN 0, among the Sends.
        msn: Msn,
        /// Ask for an Event at the peer.
        solicited: bool,
        /// The immediate data.
        data: [u8; 4],
    },
    /// RDMA Write.
    Write {
        /// The peer's buffer.
        stag: Stag,
        /// Where in it the message starts.
        to: TaggedOffset,
    },
    /// RDMA Read Request. Carries no payload.
    ReadRequest {
        /// Its number on QN 1: 1 for the first Read Request of the stream.
        msn: Msn,
        /// The read to ask for.
        req: ReadRequest,
    },
    //= 5040-4.4-2: This field MUST be copied, without interpretation, from the
    /// RDMA Read Response.
    ReadResponse {
        /// Sink STag of the request.
        stag: Stag,
        /// Sink TO of the request.
        to: TaggedOffset,
    },
    //= 7306-6.1-1: When the Immediate Data operation Completes, an indication of the
    //= 7306-6.3-7: The Local Peer MUST issue Immediate Data and Immediate Data
    /// Immediate Data, or Immediate Data with Solicited Event. Carries no payload.
    Immediate {
        /// Its number on QN 0, among the Sends.
        msn: Msn,
        /// Ask for an Event at the peer.
        solicited: bool,
        /// The data.
        data: Immediate,
    },
    //= 7306-5.2.1-15: The Requester MUST pass to the DDP layer Atomic Operation
    /// Atomic Request. Carries no payload.
    AtomicRequest {
        /// Its number on QN 1, among the Read Requests.
        msn: Msn,
        /// The operation to ask for.
        req: AtomicRequest,
    },
    //= 7306-5.2.1-17: it MUST respond with a valid Atomic Operation Response
    //= 7306-5.2.2-9: the Responder RDMAP layer MUST pass Atomic Operation Response Messages
    //= 7306-5.4-8b: Atomic Operation Response Messages MUST be submitted to the DDP
    /// Atomic Response. Carries no payload.
    AtomicResponse {
        /// Its number on QN 3: 1 for the first Atomic Response of the stream.
        msn: Msn,
        /// The answer.
        response: AtomicResponse,
    },
    /// Terminate. Carries no payload; the last message of its stream.
    Terminate {
        /// Error and headers.
        term: Terminate,
    },
}

/// Where TO and MO are in the bytes of a segment's headers.
const TO_AT: usize = LENGTH_LEN + ddp::TO_AT;
const MO_AT: usize = LENGTH_LEN + ddp::MO_AT;

/// Bytes of the longest header of a segment, with the ULPDU Length in front.
const HEADER_MAX: usize = LENGTH_LEN + UNTAGGED_LEN + TERMINATE_MAX;
const _: () = assert!(ATOMIC_REQUEST_LEN <= TERMINATE_MAX);

/// One DDP segment: the bytes of its headers, and which payload of the message follows them.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    header: [u8; HEADER_MAX],
    header_len: u8,
    last: bool,
    payload_len: u16,
    payload_offset: u32,
}

impl Segment {
    /// No segment yet, but room for one.
    pub const EMPTY: Self = Self {
        header: [0; HEADER_MAX],
        header_len: 0,
        last: false,
        payload_len: 0,
        payload_offset: 0,
    };

    /// ULPDU Length, DDP header, and RDMAP header if the message has one.
    #[inline]
    pub fn header(&self) -> &[u8] {
        match self.header.get(..usize::from(self.header_len)) {
            Some(header) => header,
            None => &self.header,
        }
    }

    /// The RDMAP opcode, as it is on the wire.
    #[inline]
    pub const fn opcode(&self) -> u8 {
        // Behind ULPDU Length and the control field of DDP.
        self.header[3] & 0x0f
    }

    /// Bytes of the message before this segment's payload.
    #[inline]
    pub const fn payload_offset(&self) -> u32 {
        self.payload_offset
    }

    /// Bytes of payload.
    #[inline]
    pub const fn payload_len(&self) -> u16 {
        self.payload_len
    }

    /// Whether it is the last segment of its message.
    #[inline]
    pub const fn last(&self) -> bool {
        self.last
    }

    /// Bytes of the ULPDU: at most the MULPDU it was made for.
    #[inline]
    pub const fn ulpdu_len(&self) -> u16 {
        (self.header_len as u16)
            .saturating_sub(LENGTH_LEN as u16)
            .saturating_add(self.payload_len)
    }

    /// Makes this the segment that follows it in its message, with as many bytes of payload.
    ///
    /// [`Segmenter::skip_like`] has told that there is one.
    #[inline]
    pub fn step(&mut self) {
        let len = u32::from(self.payload_len);
        self.payload_offset = self.payload_offset.wrapping_add(len);
        if self.header[LENGTH_LEN] & TAGGED != 0 {
            let to = self.header.be64::<TO_AT>();
            self.header.put_be64::<TO_AT>(to.wrapping_add(len.into()));
        } else {
            self.header.put_be32::<MO_AT>(self.payload_offset);
        }
    }

    //= 5041-4.4-1: Each DDP Segment MUST contain a DDP Header.
    /// Puts the segment together, of ULPDU Length and DDP header, and a header of RDMAP.
    #[inline]
    fn set<const N: usize>(
        &mut self,
        front: &[u8; N],
        rdmap: &[u8],
        offset: u32,
        len: u16,
        last: bool,
    ) {
        let mut at = 0;
        if let Some(room) = self.header.first_chunk_mut() {
            *room = *front;
            at = N;
        }
        let end = at.saturating_add(rdmap.len());
        if let Some(room) = self.header.get_mut(at..end) {
            room.copy_from_slice(rdmap);
            at = end;
        }
        self.header_len = at as u8;
        self.last = last;
        self.payload_len = len;
        self.payload_offset = offset;
    }

    /// Bytes of the FPDU without markers: length, ULPDU, pad and CRC.
    #[inline]
    pub const fn fpdu_len(&self) -> usize {
        fpdu_len(self.ulpdu_len())
    }
}

/// A position in a message: how much of it has been cut.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    offset: u32,
    done: bool,
}

//= 5040-3.1-1: RDMAP MUST be layered on top of the Direct
/// Cuts one message into segments.
#[derive(Clone, Copy, Debug)]
pub struct Segmenter {
    message: Message,
    len: u32,
    offset: u32,
    done: bool,
}

impl Segmenter {
    /// Starts with a message of `len` bytes of payload (taken as 0 for a message without payload).
    #[inline]
    pub const fn new(message: Message, len: u32) -> Self {
        let len = match message {
            Message::Send { .. }
            | Message::SendImmediate { .. }
            | Message::Write { .. }
            | Message::ReadResponse { .. } => len,
            Message::ReadRequest { .. }
            | Message::Immediate { .. }
            | Message::AtomicRequest { .. }
            | Message::AtomicResponse { .. }
            | Message::Terminate { .. } => 0,
        };
        Self {
            message,
            len,
            offset: 0,
            done: false,
        }
    }

    /// Bytes of payload not yet put into a segment.
    #[inline]
    pub const fn remaining(&self) -> u32 {
        self.len.wrapping_sub(self.offset)
    }

    /// The position at which the next segment begins.
    #[inline]
    pub const fn mark(&self) -> Mark {
        Mark {
            offset: self.offset,
            done: self.done,
        }
    }

    /// Goes back to the position before a segment that was made and not used.
    #[inline]
    pub fn rewind(&mut self, mark: Mark) {
        self.offset = mark.offset;
        self.done = mark.done;
    }

    /// Passes over the segments, `most` at most, that follow `segment`, the one made last, and
    /// differ from it only by their offset; returns how many. The last segment of the message is
    /// none of them.
    #[inline]
    pub fn skip_like(&mut self, segment: &Segment, most: usize) -> usize {
        if segment.last {
            return 0;
        }
        let len = u32::from(segment.payload_len);
        let fit = self.remaining().saturating_sub(1).checked_div(len);
        let count = fit.map_or(0, |fit| most.min(fit as usize));
        self.offset = self.offset.wrapping_add((count as u32).wrapping_mul(len));
        count
    }

    /// Whether the last segment has been made.
    #[inline]
    pub const fn done(&self) -> bool {
        self.done
    }

    /// The next segment, with a ULPDU of at most `mulpdu` bytes; `None` when the message is
    /// complete. `mulpdu` counts as 128 if it is less and as 64768 if it is more, its bounds by
    /// RFC 5044 s3.
    ///
    /// "A zero-length DDP Message is allowed and MUST consume exactly one DDP Segment"
    /// (RFC 5041 s5.2).
    pub fn next(&mut self, mulpdu: u16) -> Option<Segment> {
        let mut segment = Segment::EMPTY;
        self.next_into(mulpdu, &mut segment).then_some(segment)
    }

    //= 5040-4.1-4: the DDP layer MUST define the value of the
    //= 5041-3-3: MULPDU change, DDP MUST NOT be required by the
    //= 5044-3-4: The sending DDP MUST NOT post a ULPDU larger
    //= 5044-3-5: however, MPA is not REQUIRED to support a ULPDU Length
    //= 5040-4.1-7, 5041-3-2, 5044-4.5-4
    /// As [`next`](Self::next), and makes `segment` that segment, which saves copies of it. Returns
    /// false, and leaves `segment` as it is, when the message is complete.
    #[inline]
    pub fn next_into(&mut self, mulpdu: u16, segment: &mut Segment) -> bool {
        if self.done {
            return false;
        }
        let mulpdu = mulpdu.clamp(MIN_MULPDU, MAX_ULPDU);
        match self.message {
            Message::Send {
                msn,
                solicited,
                invalidate,
            } => {
                let opcode = Opcode::send(solicited, invalidate.is_some());
                self.send(opcode, msn, invalidate.unwrap_or_default(), mulpdu, segment);
            }
            Message::SendImmediate {
                msn,
                solicited,
                data,
            } => {
                let opcode = if solicited {
                    Opcode::SendSeImmediate
                } else {
                    Opcode::SendImmediate
                };
                let data = Stag(u32::from_be_bytes(data));
                self.send(opcode, msn, data, mulpdu, segment);
            }
            Message::Write { stag, to } => self.tagged(Opcode::Write, stag, to, mulpdu, segment),
            Message::ReadResponse { stag, to } => {
                self.tagged(Opcode::ReadResponse, stag, to, mulpdu, segment)
            }
            Message::ReadRequest { msn, req } => {
                let body: [u8; READ_REQUEST_LEN] = req.to_bytes();
                self.whole(Opcode::ReadRequest, msn, &body, segment);
            }
            Message::Immediate {
                msn,
                solicited,
                data,
            } => {
                let opcode = if solicited {
                    Opcode::ImmediateSe
                } else {
                    Opcode::Immediate
                };
                self.whole(opcode, msn, &data.0, segment);
            }
            Message::AtomicRequest { msn, req } => {
                self.whole(Opcode::AtomicRequest, msn, &req.to_bytes(), segment);
            }
            Message::AtomicResponse { msn, response } => {
                self.whole(Opcode::AtomicResponse, msn, &response.to_bytes(), segment);
            }
            Message::Terminate { term } => {
                let mut body = [0; TERMINATE_MAX];
                let len = term.encode(&mut body);
                let body = body.get(..len).unwrap_or_default();
                self.whole(Opcode::Terminate, Msn::FIRST, body, segment);
            }
        }
        true
    }

    //= 5040-5.3-1: A Send Message Type MUST reference an Untagged Buffer.
    //= 5040-5.3-2: Peer's RDMAP layer MUST request that the DDP layer
    //= 5040-5.3-5: Peer's RDMAP layer MUST request that the DDP layer
    //= 5040-5.3-9: Peer's RDMAP layer MUST pass the RDMA control field
    //= 5041-4.3-2: At the Data Source, DDP MUST set RsvdULP Field to the
    //= 5041-4.3-4: specific DDP Message MUST contain the same value for
    //= 5041-4.3-6: specific DDP message MUST contain the same value for
    //= 5041-4.3-7: The Data Source MUST ensure that each DDP Segment
    //= 5041-4.3-12: The Data Source MUST ensure that each DDP Segment
    //= 5041-4.3-13: the DDP Message MUST be set to zero by
    //= 5041-5.2-5: Message, the MO MUST be set to the octet
    //= 5040-4.1-10
    /// Makes `segment` one of a Send; `field` is its Invalidate STag field.
    #[inline]
    fn send(&mut self, opcode: Opcode, msn: Msn, field: Stag, mulpdu: u16, segment: &mut Segment) {
        let offset = self.offset;
        let (len, last) = self.advance(mulpdu - UNTAGGED_LEN as u16);
        let header = UntaggedHeader {
            last,
            control: opcode.control(),
            invalidate: field,
            qn: Qn::SEND,
            msn,
            mo: offset,
        };
        let front = header.behind((UNTAGGED_LEN as u16).saturating_add(len));
        segment.set(&front, &[], offset, len, last);
    }

    //= 5040-5.1-1: An RDMA Write Message MUST reference a Tagged Buffer.
    //= 5040-5.1-2: Source RDMAP layer MUST request that the DDP layer
    //= 5040-5.2.2-1: An RDMA Read Response Message MUST reference a Tagged Buffer.
    //= 5040-5.2.2-2: Source RDMAP layer MUST request that the DDP mark
    //= 5040-5.2.2-6: Read Response Message MUST write to one remote Tagged Buffer.
    //= 5041-4.2-2: At the Data Source, DDP MUST set RsvdULP Field to the
    //= 5041-4.2-5: The Data Source MUST ensure that each DDP Segment
    //= 5041-4.2-7: At the Data Source, DDP MUST set the STag field to
    //= 5041-4.2-10: The Data Source MUST ensure that each DDP Segment
    //= 5041-5.2-7: Message, the TO MUST be set to the octet
    //= 5041-4.2-9
    /// Makes `segment` one of a tagged message.
    ///
    /// RFC 5041 s5.2: "the TO MUST be set to the octet offset from the first octet in the
    /// associated ULP Message to the first octet in the ULP Payload contained in the DDP Segment,
    /// plus the TO assigned to the first octet in the associated ULP Message."
    #[inline]
    fn tagged(
        &mut self,
        opcode: Opcode,
        stag: Stag,
        to: TaggedOffset,
        mulpdu: u16,
        segment: &mut Segment,
    ) {
        let offset = self.offset;
        let (len, last) = self.advance(mulpdu - TAGGED_LEN as u16);
        let header = TaggedHeader {
            last,
            control: opcode.control(),
            stag,
            to: to.wrapping_add(offset),
        };
        let front = header.behind((TAGGED_LEN as u16).saturating_add(len));
        segment.set(&front, &[], offset, len, last);
    }

    //= 5040-4.1-10: Invalidate STag field MUST be set to zero on
    //= 5040-5.2.1-1: An RDMA Read Request Message MUST reference an Untagged Buffer.
    //= 5040-5.2.1-2: Peer's RDMAP layer MUST request that the DDP mark
    //= 5040-5.2.1-6: An RDMA Read Request Message MUST reference the RDMA Read Request Queue.
    //= 5040-5.2.1-7: Peer's RDMAP layer MUST request that the DDP layer
    //= 5040-5.4-1: A Terminate Message MUST reference an Untagged Buffer.
    //= 5040-5.4-2: Peer's RDMAP layer MUST request that the DDP layer
    //= 5040-5.4-3: Peer's RDMAP layer MUST request that the DDP layer
    //= 7306-4.1-3: Invalidate STag: Set to zero by the sender, ignored by
    //= 7306-5-4: Atomic Operation Response Messages MUST use the Untagged Buffer model
    //= 7306-5.2.1-7: An Atomic Operation Request Message MUST reference an Untagged Buffer.
    //= 7306-5.2.1-8: the Local Peer's RDMAP layer MUST request that the DDP
    //= 7306-5.2.1-14: the Requester's RDMAP layer MUST request that the DDP layer
    //= 7306-5.2.2-2: the Responder RDMAP layer MUST request that the DDP mark
    //= 7306-5.2.2-4: the Responder's RDMAP layer MUST request that the DDP layer
    //= 7306-6.2-1: The first 8 bytes of the data following the DDP
    //= 7306-6.3-1: An Immediate Data or Immediate Data with SE Message MUST
    //= 7306-6.3-2: the Local Peer's RDMAP Layer MUST request that the DDP layer mark
    /// Makes `segment` all of an untagged message that fits one segment and carries a header of
    /// RDMAP, `body`.
    fn whole(&mut self, opcode: Opcode, msn: Msn, body: &[u8], segment: &mut Segment) {
        self.done = true;
        let header = UntaggedHeader {
            last: true,
            control: opcode.control(),
            invalidate: Stag(0),
            qn: opcode.queue().unwrap_or(Qn::SEND),
            msn,
            mo: 0,
        };
        let front = header.behind((UNTAGGED_LEN as u16).saturating_add(body.len() as u16));
        segment.set(&front, body, 0, 0, true);
    }

    //= 5041-4.1-3: It MUST be set to one on the last
    //= 5041-4.1-4: It MUST NOT be set to one on any
    //= 5041-4.1-5: set to 1 MUST be posted to the LLP
    //= 5041-4.1-6: set to 1 MUST carry the highest MO.
    //= 5041-5.2-1: the DDP layer MUST segment the data contained in
    //= 5041-5.2-3: the DDP layer MUST send all the data contained
    //= 5041-5.2-8: is allowed and MUST consume exactly one DDP Segment.
    /// Takes up to `room` bytes of the message; returns how many, and whether they are the last.
    #[inline]
    fn advance(&mut self, room: u16) -> (u16, bool) {
        let left = self.remaining();
        let last = left <= u32::from(room);
        let len = if last { left as u16 } else { room };
        self.offset = self.offset.wrapping_add(u32::from(len));
        self.done = last;
        (len, last)
    }
}
