// SPDX-License-Identifier: GPL-2.0

//! The MPA receiver: finds FPDUs in the byte stream and verifies them (RFC 5044 s4, s6).

mod complete;
mod gather;
mod verify;

use self::gather::take;
use super::fault::Reason;
use super::rules::Rules;
use super::segment::{Action, Segment};
use super::{Fault, Handler, RxConfig};
use crate::ddp::UNTAGGED_LEN;
use crate::mpa::fpdu::{
    header_len, pad_len, payload_len, trailer_len, ulpdu_len, CRC_INIT, TAGGED_HDR, TRAILER_MAX,
    UNTAGGED_HDR,
};
use crate::rdmap::{
    Opcode, Terminate, ATOMIC_REQUEST_LEN, ATOMIC_RESPONSE_LEN, READ_REQUEST_LEN, TERMINATE_MAX,
};
use crate::types::{SharedByte, MAX_ULPDU};

/// Bytes of the longest header that a message has as its payload, but for an Atomic Response.
const BODY_MAX: usize = TERMINATE_MAX;
const _: () = assert!(ATOMIC_REQUEST_LEN <= BODY_MAX && READ_REQUEST_LEN <= BODY_MAX);

/// Part of an FPDU that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// ULPDU Length and DDP header.
    Header,
    /// Nothing for now: the header is complete, and the rest has to come whole.
    Partial,
    /// Nothing for now: the header is complete, and the handler wants the segment to wait.
    Held,
    /// Payload.
    Payload,
    /// The rest of the ULPDU of an FPDU at fault, read only to learn whether its CRC is right.
    Discard,
    /// Pad and CRC.
    Trailer,
    /// Nothing: the peer has sent a Terminate.
    Closed,
    /// Nothing: the stream has a fault.
    Dead,
}

/// Inbound half of a stream in Full Operation: MPA deframer with the rules of DDP and RDMAP.
///
/// Never asks the peer for markers, hence expects none.
#[derive(Debug)]
pub struct Receiver {
    phase: Phase,
    pub(super) crc_on: bool,
    /// Verifies each FPDU before it places anything of it: [`receive`](Self::receive) takes no
    /// byte behind its header until the rest is there in whole.
    pub(super) only_whole: bool,
    /// Bytes of header or trailer gathered so far.
    pub(super) have: u8,
    /// Bytes of pad in the FPDU under way, 0 to 3.
    pub(super) pad: u8,
    /// The fault of the FPDU under way; in [`Phase::Dead`] that of the stream.
    fault: Option<Reason>,
    /// The CRC of the FPDU under way was verified before anything of it was passed on. False
    /// between FPDUs.
    pub(super) verified: bool,
    /// CRC32c register over the FPDU under way.
    crc: u32,
    /// Bytes of payload (or of what is discarded) still to come.
    left: u32,
    /// The message of the last FPDU goes on, and its payload, if any, went to the handler.
    pub(super) continues: bool,
    /// ULPDU Length and DDP header of the FPDU under way. Kept for a Terminate.
    pub(super) hdr: [u8; UNTAGGED_HDR],
    trailer: [u8; TRAILER_MAX],
    //= 5040-5.4-4: One Terminate Message MUST consume one Untagged Buffer.
    /// The header, or Immediate Data, that is the payload of the message under way, or of the one
    /// that is held.
    body: [u8; BODY_MAX],
    /// As `body`, of an Atomic Response, which may come between the segments of such a message.
    response: [u8; ATOMIC_RESPONSE_LEN],
    /// The segment under way, `None` while its header has not passed all checks.
    pub(super) segment: Option<Segment>,
    /// The last segment of a message that waits for the RDMA Write under way, and its `hdr`.
    held: Option<(Segment, [u8; UNTAGGED_HDR])>,
    pub(super) rules: Rules,
    pub(super) fpdus: u64,
}

impl Receiver {
    /// A receiver at the first FPDU.
    pub const fn new(cfg: RxConfig) -> Self {
        Self {
            phase: Phase::Header,
            crc_on: cfg.crc,
            only_whole: false,
            have: 0,
            pad: 0,
            fault: None,
            verified: false,
            crc: CRC_INIT,
            left: 0,
            continues: false,
            hdr: [0; UNTAGGED_HDR],
            trailer: [0; TRAILER_MAX],
            body: [0; BODY_MAX],
            response: [0; ATOMIC_RESPONSE_LEN],
            segment: None,
            held: None,
            rules: Rules::new(),
            fpdus: 0,
        }
    }

    /// The first FPDU may be a zero-length Send that is the peer's RTR (RFC 6581 s9.2).
    ///
    /// It is then reported as [`Event::Rtr`] and takes no receive buffer. It does take MSN 1. The
    /// other RTR indications, zero-length Write and Read, need no such care.
    pub fn expect_rtr_send(&mut self) {
        self.rules.rtr_send = true;
    }

    /// The messages of RFC 7306 are legal from now on: Immediate Data, and Atomic Requests and
    /// Responses. Without this their opcodes are reserved, as RFC 5040 has it.
    pub fn allow_extensions(&mut self) {
        self.rules.extensions = true;
    }

    /// Sends with immediate data are legal from now on, as both ends have agreed.
    pub fn allow_send_immediate(&mut self) {
        self.rules.send_immediate = true;
    }

    /// The number of FPDUs that have come in full, and without a fault.
    #[inline]
    pub fn fpdus(&self) -> u64 {
        self.fpdus
    }

    //= 5041-3-10: Stream, the LLP MUST provide a mechanism to indicate
    //= 5041-3-11: Connection, the LLP MUST provide a mechanism to indicate
    /// Whether the stream is between FPDUs, so that a FIN here cuts none short.
    pub fn at_boundary(&self) -> bool {
        match self.phase {
            Phase::Header => self.have == 0,
            Phase::Closed => true,
            _ => false,
        }
    }

    /// Whether the header of an FPDU is complete, whose rest has to come whole.
    pub(super) fn wants_whole(&self) -> bool {
        self.phase == Phase::Partial
    }

    /// Bytes that are still to come of the FPDU whose header is complete; 0 if there is none.
    pub(super) fn left_of_fpdu(&self) -> usize {
        let left = self.left as usize + trailer_len(self.pad);
        match self.phase {
            Phase::Partial | Phase::Held | Phase::Payload | Phase::Discard => left,
            Phase::Trailer => left.saturating_sub(self.have.into()),
            Phase::Header | Phase::Closed | Phase::Dead => 0,
        }
    }

    /// Whether a message has begun and not ended, so that a FIN here would cut it short. False once
    /// the peer has sent a Terminate: it sends nothing after that (RFC 5040 s5.4), whatever it was
    /// sending.
    pub fn mid_message(&self) -> bool {
        self.phase != Phase::Closed && self.rules.mid_message()
    }

    //= 5040-7.1-2: The Local Peer MUST send a Terminate Message for
    //= 5040-7.1-3: experienced an error MUST be captured by the Terminate
    //= 5044-8-4: and 3, MPA MUST NOT close the TCP connection
    //= 7306-5.1.2-3d: A terminate message MUST be generated
    //= 7306-8.1-1: The Local Peer MUST send a Terminate Message for each
    //= 7306-5.1.1-3, 7306-6.1-3
    /// The Terminate to send for a fault that [`receive`](Self::receive) has returned, with the
    /// headers at fault. `None` if the peer is told nothing, and the stream just closed.
    pub fn terminate_for(&self, f: &Fault) -> Option<Terminate> {
        let code = f.term()?;
        let is_read = self
            .segment
            .is_some_and(|s| s.opcode == Opcode::ReadRequest);
        Some(Terminate::with_headers(
            code,
            ulpdu_len(&self.hdr),
            *self.hdr.last_chunk::<UNTAGGED_LEN>()?,
            self.body
                .first_chunk::<READ_REQUEST_LEN>()
                .filter(|_| is_read)
                .copied(),
        ))
    }

    //= 5041-3-5: The LLP MUST preserve DDP Segment and Message boundaries
    //= 5041-6.2.2-1: a DDP Stream MUST cause DDP to indicate to
    //= 5041-7.1-4: DDP MUST silently drop any subsequent incoming DDP Segments.
    //= 5044-5.1-1: MPA receivers are REQUIRED to be able to operate
    //= 5044-8-3: any type, it MUST NOT pass or deliver any
    //= 5044-A.4-1: However, MPA receivers MUST NOT depend on FPDU Alignment
    //= 5044-4.1-1
    /// Takes the next bytes of the stream; returns how many. It takes all of them, unless the
    /// handler wants a segment to wait ([`Refusal::Wait`](super::Refusal::Wait)): the caller passes
    /// the others again with the next call, before the bytes that follow. TCP's window holds up
    /// the peer meanwhile.
    ///
    /// An FPDU that is whole in `data` is verified before any of its payload is placed (RFC 5044
    /// s6). One that comes in pieces is placed as it comes; [`FpduAssembler`](super::FpduAssembler)
    /// puts such FPDUs together first.
    ///
    /// A fault is returned once the FPDU it was found in has been received with a good CRC (RFC
    /// 5044 s6: "An MPA receiver MUST first verify the FPDU"); with CRCs off, or if the fault is
    /// this end's, at once. After it the receiver is dead and returns the same fault for any input:
    /// "Once MPA delivers an error of any type, it MUST NOT pass or deliver any additional FPDUs on
    /// that half connection" (RFC 5044 s8).
    pub fn receive<H: Handler>(&mut self, data: &[SharedByte], h: &mut H) -> Result<usize, Fault> {
        let mut rest = data;
        if self.phase == Phase::Held {
            if let Err(reason) = self.admit(h) {
                self.condemn(reason);
            }
        }
        loop {
            let step = match self.phase {
                Phase::Header => match self.next_header(&mut rest, h) {
                    Ok(Some(n)) => self.open(n, rest, h),
                    Ok(None) => return Ok(data.len()),
                    Err(reason) => Err(reason),
                },
                Phase::Partial if rest.len() >= self.left_of_fpdu() => {
                    self.phase = Phase::Header;
                    self.open_whole(rest, h)
                }
                Phase::Partial | Phase::Held => return Ok(data.len().saturating_sub(rest.len())),
                Phase::Payload => match take(&mut rest, self.left) {
                    Some(chunk) => self.payload(chunk, h),
                    None => return Ok(data.len()),
                },
                Phase::Discard => match take(&mut rest, self.left) {
                    Some(chunk) => self.discard(chunk, h),
                    None => return Ok(data.len()),
                },
                Phase::Trailer => {
                    if self.gather_trailer(&mut rest, h) {
                        self.close(h)
                    } else {
                        return Ok(data.len());
                    }
                }
                Phase::Closed => return Ok(data.len()),
                Phase::Dead => return Err(Fault(self.fault.unwrap_or(Reason::Local))),
            };
            if let Err(reason) = step {
                self.condemn(reason);
            }
        }
    }

    //= 5040-7-1: then the LLP MUST label the Stream as an
    //= 5044-6-1
    /// Notes that the FPDU under way, hence the stream, is at fault.
    #[cold]
    fn condemn(&mut self, reason: Reason) {
        self.fault = Some(reason);
        let over = self.verified || matches!(self.phase, Phase::Closed | Phase::Trailer);
        self.phase = if over || !self.crc_on || reason == Reason::Local {
            Phase::Dead
        } else if self.left == 0 {
            Phase::Trailer
        } else {
            Phase::Discard
        };
    }

    /// Receives the FPDUs that continue the last one, and takes the header of the one behind them;
    /// returns its length, or `None` if it is not complete.
    #[inline]
    fn next_header<H: Handler>(
        &mut self,
        rest: &mut &[SharedByte],
        h: &mut H,
    ) -> Result<Option<usize>, Reason> {
        if self.continues && self.have == 0 {
            self.receive_continuations(rest, h)?;
        }
        Ok(self.gather_header(rest, h))
    }

    //= 5041-3-8: On receive, the LLP MUST provide the length of the
    //= 5044-4.3-10: MPA Receivers MUST preserve ULPDU boundaries when passing data to DDP.
    //= 5044-5.2-1: The receivers MUST identify FPDU boundaries by using the
    //= 5044-6-2: To do this, the receiver MUST:
    //= 5044-6-3: of the following MUST be used:
    //= 5041-4.4-1
    /// Checks the header of `n` bytes, which `rest` follows, and starts with the payload.
    #[inline]
    fn open<H: Handler>(&mut self, n: usize, rest: &[SharedByte], h: &mut H) -> Result<(), Reason> {
        let ulpdu = ulpdu_len(&self.hdr);
        self.pad = pad_len(ulpdu);
        self.left = payload_len(ulpdu, n);
        self.continues = false;
        self.segment = None;
        if self.takes_crc() {
            let hdr = self.hdr.get(..n).unwrap_or(&self.hdr);
            self.crc = h.crc32c(CRC_INIT, hdr);
            if !self.verify_whole(rest, h)? {
                self.phase = Phase::Partial;
                return Ok(());
            }
        }
        if n < TAGGED_HDR {
            return Err(Reason::UlpduTooShort);
        }
        // RFC 5044 s3: "The sending DDP MUST NOT post a ULPDU larger than 64768 octets to MPA."
        if ulpdu > MAX_ULPDU {
            return Err(Reason::UlpduTooLong);
        }
        self.admit(h)
    }

    /// As [`open`](Self::open), once the rest is there of an FPDU that has to come whole.
    #[cold]
    fn open_whole<H: Handler>(&mut self, rest: &[SharedByte], h: &mut H) -> Result<(), Reason> {
        self.open(header_len(UNTAGGED_HDR, &self.hdr), rest, h)
    }

    /// Checks the DDP header and lets the handler accept the segment, or hold it up.
    ///
    /// A segment that is held up is checked again, with the same outcome: nothing of the stream is
    /// taken meanwhile, and the rules take note of a segment only when it is accepted.
    #[inline]
    fn admit<H: Handler>(&mut self, h: &mut H) -> Result<(), Reason> {
        let Some(ddp) = self.hdr.last_chunk::<UNTAGGED_LEN>() else {
            return Err(Reason::Local);
        };
        match self.rules.open(ddp, self.left, h) {
            Ok(segment) => {
                self.segment = Some(segment);
                self.phase = if self.left == 0 {
                    Phase::Trailer
                } else {
                    Phase::Payload
                };
                Ok(())
            }
            Err(Reason::Waits) => {
                self.phase = Phase::Held;
                Ok(())
            }
            Err(reason) => Err(reason),
        }
    }

    //= 5041-5.2-4: the DDP layer MUST Place the ULP Payload contained
    //= 5044-4.3-11: MPA Receivers MUST pass the ULPDU data and the
    /// Passes on the next bytes of payload.
    #[inline]
    fn payload<H: Handler>(&mut self, chunk: &[SharedByte], h: &mut H) -> Result<(), Reason> {
        let Some(segment) = &self.segment else {
            return Err(Reason::Local);
        };
        let from = segment.end.saturating_sub(self.left) as usize;
        self.left = self.left.saturating_sub(chunk.len() as u32);
        if segment.action == Action::Place {
            match h.place(chunk, self.takes_crc().then_some(self.crc)) {
                Ok(crc) => self.crc = crc,
                Err(why) => {
                    let reason = segment.refused_placement().reason(why);
                    self.update_crc(chunk, h);
                    return Err(reason);
                }
            }
        } else {
            self.gather_body(segment.opcode, from, chunk, h);
        }
        if self.left == 0 {
            self.phase = Phase::Trailer;
        }
        Ok(())
    }

    //= 5041-7.1-3: this section, it MUST cease placing the remainder of
    /// Passes over bytes of an FPDU at fault.
    ///
    /// RFC 5041 s7.1: "it MUST cease placing the remainder of the DDP Segment".
    #[cold]
    fn discard<H: Handler>(&mut self, chunk: &[SharedByte], h: &mut H) -> Result<(), Reason> {
        self.update_crc(chunk, h);
        self.left = self.left.saturating_sub(chunk.len() as u32);
        if self.left == 0 {
            self.phase = Phase::Trailer;
        }
        Ok(())
    }

    /// Verifies the FPDU, unless that was done, and completes its segment.
    #[inline]
    fn close<H: Handler>(&mut self, h: &mut H) -> Result<(), Reason> {
        self.verify_trailer(h)?;
        self.verified = false;
        if let Some(reason) = self.fault {
            return Err(reason);
        }
        if let Some(segment) = self.segment {
            self.complete(segment, h)?;
        }
        self.fpdus = self.fpdus.wrapping_add(1);
        if self.phase != Phase::Closed {
            self.phase = Phase::Header;
        }
        Ok(())
    }
}
