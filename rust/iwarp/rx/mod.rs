// SPDX-License-Identifier: GPL-2.0

//! Receive: from bytes of the TCP stream to placements and events.
//!
//! [`Receiver`] finds the FPDUs, checks DDP and RDMAP rules and calls a [`Handler`]:
//!
//! ```text
//! begin_segment  place  place ...  end_segment            a segment of a message
//! begin_segment  place             end_segment  deliver   its last segment
//! place_next                                              a segment that continues the one before
//! ```
//!
//! The receiver calls `end_segment` and `deliver` only after it has verified the FPDU's CRC. So it
//! does `place` for an FPDU that it gets whole. Of an FPDU that comes in pieces it has the payload
//! placed before the CRC is known, unless [`FpduAssembler`] puts the pieces together first (see the
//! crate's documentation).

mod assembler;
mod continuation;
mod fault;
mod receiver;
mod rules;
mod segment;

pub use assembler::FpduAssembler;
pub use fault::{Fault, FaultKind};
pub use receiver::Receiver;

use crate::rdmap::{AtomicRequest, AtomicResponse, Immediate, Terminate};
use crate::types::{ReadRequest, SharedByte, Stag, TaggedOffset};
use core::sync::atomic::Ordering;

/// The terms of connection setup for the inbound half of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxConfig {
    /// CRCs are in use: verify them (RFC 5044 s7.1.1, C bit).
    pub crc: bool,
}

//= 5041-4.2-8: Sink, the DDP MUST provide the STag field when
/// The buffer that the payload of a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The receive buffer at the head of the Send queue (QN 0), `offset` bytes in.
    Recv {
        /// Bytes of the message before this segment (MO).
        offset: u32,
    },
    //= 7306-6.1-2: the RDMAP Layer passes the following information to the ULP
    /// The receive buffer at the head of the Send queue, which Immediate Data takes and places
    /// nothing in.
    Immediate,
    /// A Tagged Buffer that this end has advertised for RDMA Write.
    Write {
        /// The buffer.
        stag: Stag,
        /// Where the segment's payload starts in it; `to` plus length does not wrap.
        to: TaggedOffset,
    },
    /// The sink buffer of the oldest outstanding RDMA Read, `offset` bytes into its response.
    ///
    /// STag, TO and length of the segment have been found to agree with [`ReadExpect`].
    ReadResponse {
        /// Bytes of the response before this segment.
        offset: u32,
    },
}

/// One DDP segment with payload to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The buffer that it belongs to.
    pub target: Target,
    /// Bytes of payload in this segment, at most [`MAX_ULPDU`](crate::MAX_ULPDU).
    pub len: u32,
    /// The first segment of its message that the handler sees.
    pub first: bool,
    /// The last segment of its message (L flag).
    pub last: bool,
}

/// Sink buffer and length of an outstanding RDMA Read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadExpect {
    /// Sink STag of the request.
    pub stag: Stag,
    /// Sink TO of the request.
    pub to: TaggedOffset,
    /// RDMA Read Message Size of the request.
    pub len: u32,
}

//= 5040-5.1-3: A valid RDMA Write Message MUST NOT be delivered to the
//= 5040-5.2.1-5: Read Request Message MUST NOT be delivered to the
//= 5040-5.4-7: The RDMAP layer MUST Deliver the Terminate Message to the ULP.
//# as an event of the QP, and as the status of the Read that was refused
//= 7306-5.2.1-10: The Responder's RDMAP layer MUST process an Atomic Operation Request Message.
//= 7306-5.2.1-11: MUST NOT be delivered to the Responder's ULP
/// A message that has been received in whole, with its CRCs verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A Send of any kind fills the receive buffer at the head of the queue.
    Recv {
        /// Length of the message in bytes.
        len: u32,
        /// It asks for an Event (Send with Solicited Event).
        solicited: bool,
        /// The peer wants this STag invalidated before the message is delivered to the ULP.
        invalidate: Option<Stag>,
    },
    /// A Send with immediate data fills the receive buffer at the head of the queue.
    RecvImmediate {
        /// Length of the message in bytes.
        len: u32,
        /// It asks for an Event.
        solicited: bool,
        /// The immediate data.
        data: [u8; 4],
    },
    /// Immediate Data takes the receive buffer at the head of the queue.
    Immediate {
        /// The data.
        data: Immediate,
        /// It asks for an Event (Immediate Data with Solicited Event).
        solicited: bool,
    },
    /// An RDMA Write is placed. It is not delivered to the ULP (RFC 5040 s5.1).
    Write {
        /// Length of the message in bytes.
        len: u32,
    },
    /// The peer wants to read.
    ///
    /// Requests are numbered by their MSN, and none is missing: the n-th of these events and those
    /// of Atomic Requests has MSN n.
    ReadRequest(ReadRequest),
    /// The peer wants an Atomic Operation to be executed. It shares the numbers of Read Requests,
    /// and is executed in their order.
    AtomicRequest(AtomicRequest),
    //= 7306-5.2.2-7: The RDMAP layer MUST Deliver the Atomic Operation Response Message
    //= 7306-5.4-1: the Requester MUST NOT consider the contents of the Tagged
    /// The answer to an Atomic Request of this end.
    AtomicResponse(AtomicResponse),
    /// The response to the oldest outstanding RDMA Read is complete.
    ReadResponse {
        /// Its length in bytes, as long as the request asked for.
        len: u32,
    },
    /// The zero-length Send that serves as RTR (RFC 6581 s9.2): the peer is ready to receive.
    ///
    /// It takes no receive buffer. Seen only after [`Receiver::expect_rtr_send`].
    Rtr,
    /// The peer has terminated the stream. Whatever follows is dropped.
    Terminate(Terminate),
}

//= 7306-9-1: Atomic Operations use ULP Buffer addresses for the Remote Peer
/// The reason for which a handler refuses a segment or a message.
///
/// The error that a Terminate reports for it depends on the message (see [`Fault`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such STag, or it is not valid.
    InvalidStag,
    /// Outside of the buffer.
    Bounds,
    /// The buffer does not grant the access.
    Access,
    /// The STag belongs to another stream or protection domain.
    NotAssociated,
    /// Offset plus length wraps.
    Wrap,
    /// No receive buffer is posted.
    NoBuffer,
    /// No receive buffer is posted, but there may be one soon: the rest of the stream waits. Only
    /// for the first segment of a Send or of Immediate Data, from [`Handler::begin_segment`].
    Wait,
    /// The message is longer than the receive buffer.
    TooLong,
    //= 7306-5.2.2-5: The Responder MUST ensure that a sufficient number of Untagged
    //= 7306-5.2.1-9
    /// More Read Requests than the agreed IRD.
    ReadQueueFull,
    /// The STag cannot be invalidated by the peer.
    CannotInvalidate,
    //= 7306-5.1.1-1: FetchAdd Atomic Operations MUST target ULP Buffer addresses
    //= 7306-5.1.1-2b: the Responder's memory MUST NOT be modified
    //= 7306-5.1.2-2: CmpSwap Atomic Operations MUST target ULP Buffer addresses
    //= 7306-5.1.2-3a: The operation MUST NOT be performed
    //= 7306-5.1.2-3b: The Responder's memory MUST NOT be modified
    //= 7306-5.2.1-4: MUST represent a ULP Buffer address that is 64-bit aligned
    //= 7306-8.2-6: The RDMAP layer MUST validate that the Remote Peer's Tagged
    /// The target of an Atomic Request is not aligned to 8 bytes.
    Misaligned,
    //= 7306-5.2.2-6: The Requester MUST ensure that a sufficient number of Untagged
    //= 7306-5-5
    /// An Atomic Response that answers another request than the oldest outstanding one, or
    /// Immediate Data for a consumer that knows no such message.
    Unexpected,
    /// An error of this end; the peer is not to blame.
    Local,
}

/// The upper half of the receive path: memory, queues, completions.
pub trait Handler {
    /// Updates the raw CRC32c register `crc` (no inversions) over `data`.
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32;

    /// As [`crc32c`](Self::crc32c), over bytes of the stream.
    fn crc32c_shared(&mut self, crc: u32, data: &[SharedByte]) -> u32 {
        data.iter().fold(crc, |crc, byte| {
            self.crc32c(crc, &[byte.load(Ordering::Relaxed)])
        })
    }

    /// Returns a copy of some bytes of the stream, each of which is read once.
    #[inline]
    fn load<const N: usize>(&mut self, bytes: &[SharedByte; N]) -> [u8; N] {
        bytes.each_ref().map(|byte| byte.load(Ordering::Relaxed))
    }

    /// Copies bytes of the stream to the buffer of a [`FpduAssembler`]. Both are as long.
    fn copy(&mut self, to: &[SharedByte], from: &[SharedByte]) {
        for (to, from) in to.iter().zip(from) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// The response that the oldest outstanding RDMA Read expects; `None` if no read is
    /// outstanding.
    ///
    /// Called at the first segment of a Read Response.
    fn expected_read(&mut self) -> Option<ReadExpect>;

    //= 5041-4.2-6: The STag MUST be valid for this DDP Stream.
    //= 5041-7.1-2a: The STag is valid for this stream.
    //= 5041-7.1-2b: The STag has an associated buffer that allows Placement
    //= 5041-7.1-2c: The TO falls in the range of legal offsets
    //= 5041-7.1-2d: The sum of the DDP Segment payload length and
    /// A segment begins: find its target and check its bounds, before its first byte moves.
    ///
    /// Called for every segment of a Send, also of length 0 ("A zero-length Send Message Type MUST
    /// consume an Untagged Buffer", RFC 5040 s5.3); `first` is when to take a receive buffer. Never
    /// called for a tagged segment of length 0: "The STag and TO fields MUST NOT be checked for a
    /// zero-length Tagged DDP Message" (RFC 5041 s5.2).
    ///
    /// Immediate Data has it called for the first segment only, with a length of 0. Nothing of it
    /// is placed, and no [`end_segment`](Self::end_segment) follows.
    ///
    /// [`Refusal::Wait`] refuses nothing yet: [`Receiver::receive`] takes no byte after the
    /// segment's header, and its next call asks for this segment again.
    ///
    /// A tagged message may begin while a Send is incomplete, and a Send while a tagged message is;
    /// keep the states of [`Target::Recv`] and of the tagged targets apart. An RDMA Write and a
    /// Read Response never interleave.
    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal>;

    /// The next bytes of the segment that began: place them after the earlier ones and return
    /// `crc` updated over them. `crc` is `None` when CRCs are off, or the FPDU's was verified
    /// before; the value returned is then ignored.
    ///
    /// The pieces of a segment add up to its length and no more, unless it is refused. The CRC must
    /// be that of `data`, not of its copy, to which others may write as well.
    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal>;

    /// A whole segment of the message under way, which continues the segment before and is not the
    /// last: places it as [`begin_segment`](Self::begin_segment), [`place`](Self::place) and
    /// [`end_segment`](Self::end_segment) would, with their checks. If CRCs are on, its CRC is
    /// verified.
    ///
    /// Called only directly after an `end_segment`, or an accepted `place_next`, of a segment that
    /// was as long. Returns whether the segment was placed. If not, it goes the usual way, by those
    /// three functions, which may still accept it. Some of a Send may have been placed already.
    fn place_next(&mut self, data: &[SharedByte]) -> bool;

    /// The segment is complete and its CRC verified. Follows every accepted
    /// [`begin_segment`](Self::begin_segment), but for [`Target::Immediate`].
    fn end_segment(&mut self) -> Result<(), Refusal>;

    //= 5040-5.3-10a: Verify the STag that is associated with the RDMAP
    /// A message is complete and all its CRCs verified.
    fn deliver(&mut self, e: Event) -> Result<(), Refusal>;
}
