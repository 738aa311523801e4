// SPDX-License-Identifier: GPL-2.0

//! DDP and RDMAP rules for one segment after the other (RFC 5041 s5 and s7.1, RFC 5040 s7.2).
//!
//! [`Rules`] has the state of the stream so far; [`Rules::open`] checks the header of the next
//! segment against it.
//!
//! # Interleaving
//!
//! RFC 5041 s5.3 wants messages transmitted in the order they were submitted, and says nothing of
//! segments of a message between those of another. Some senders let a tagged message (a Read
//! Response, say) pass between the segments of an untagged one, or the reverse; that much is
//! accepted, each kind has its own state. Two messages of the same kind cannot interleave: DDP
//! recovers the boundaries of tagged messages only from "the in-order delivery characteristics of
//! the LLP" (s5.2), and completing an untagged message in front of one sent earlier would break
//! "MUST Deliver DDP Messages to the ULP in the order they were sent" (s5.3). The exception is
//! Terminate, which comes instead of the rest of whatever its sender cannot finish
//! (RFC 5040 s7.1 case 1).
//!
//! An untagged message that begins behind the first segment of an RDMA Write is delivered behind
//! that Write's last: a Send says that the Writes before it are placed, and a Read Request may read
//! what they have written (RFC 5040 s5.5 rules 10 and 12). One such message can wait; another one
//! is a fault. Nothing waits for a Read Response: it belongs to an operation of this end, and RFC
//! 5040 s5.5 rule 2 has no order "between operations that are generated from the two ends".

mod untagged;

use super::fault::{Reason, Refused};
use super::segment::{Action, Segment};
use super::{Handler, Placement, ReadExpect, Target};
use crate::bytes::Fields;
use crate::ddp::{
    TaggedHeader, UntaggedHeader, TAGGED, TAGGED_LEN, UNTAGGED_LEN, VERSION, VERSION_MASK,
};
use crate::rdmap::{Opcode, EXTENSION_BIT, VERSION_BITS, VERSION_BITS_MASK};
use crate::types::{Msn, Stag};

/// The versions of DDP and RDMAP in the first two bytes of a DDP header, and the bit of the opcode
/// that is set in none of RFC 5040.
const USUAL: u16 = u16::from_be_bytes([VERSION, VERSION_BITS]);
const USUAL_MASK: u16 = u16::from_be_bytes([VERSION_MASK, VERSION_BITS_MASK | EXTENSION_BIT]);

//= 5040-3.1-1
/// State of the inbound DDP stream.
#[derive(Debug)]
pub(super) struct Rules {
    /// The untagged message under way.
    untagged: Option<Opcode>,
    /// Its next MO.
    mo: u32,
    /// An RDMA Write is under way, and the last untagged message, which may be complete, began
    /// behind it. The receiver clears this when the Write is complete.
    pub(super) behind_write: bool,
    /// The tagged message under way.
    tagged: Option<Opcode>,
    /// Bytes of it so far.
    tagged_len: u32,
    /// The STag of its first segment that had payload.
    tagged_stag: Stag,
    /// Next MSN of QN 0.
    send_msn: Msn,
    //= 7306-5.2.1-9: One Atomic Operation Request Message MUST consume one Untagged Buffer.
    /// Next MSN of QN 1.
    read_msn: Msn,
    //= 7306-5.2.2-1: An Atomic Operation Response Message MUST consume an Untagged Buffer.
    //= 7306-4.1-4
    /// Next MSN of QN 3.
    atomic_msn: Msn,
    /// The Read that the Read Response under way must match.
    expect: ReadExpect,
    /// The next segment may be the zero-length Send that serves as RTR.
    pub(super) rtr_send: bool,
    /// Messages of RFC 7306 are legal.
    pub(super) extensions: bool,
    /// Sends with immediate data are legal.
    pub(super) send_immediate: bool,
}

impl Rules {
    pub(super) const fn new() -> Self {
        Self {
            untagged: None,
            mo: 0,
            behind_write: false,
            tagged: None,
            tagged_len: 0,
            tagged_stag: Stag(0),
            send_msn: Msn::FIRST,
            read_msn: Msn::FIRST,
            atomic_msn: Msn::FIRST,
            expect: ReadExpect {
                stag: Stag(0),
                to: crate::types::TaggedOffset(0),
                len: 0,
            },
            rtr_send: false,
            extensions: false,
            send_immediate: false,
        }
    }

    /// Whether a message has begun and not ended.
    pub(super) fn mid_message(&self) -> bool {
        self.untagged.is_some() || self.tagged.is_some()
    }

    //= 5040-7.2-1: The DDP layer MUST validate all DDP Segment fields.
    //= 5040-7.2-2: The RDMA OpCode MUST be valid.
    //= 5040-7.2-3: The RDMA Version MUST be valid.
    //= 5040-7.2-7: The RDMA OpCode MUST be valid.
    //= 5040-7.2-8: The RDMA Version MUST be valid.
    //= 5041-4.1-10: The value of DV MUST be the same for all
    //= 7306-8.2-1: and Immediate Data with Solicited Event, the following MUST be
    //= 5040-4.1-8
    /// Checks the DDP header that begins `hdr`, of a segment with `len` bytes of payload, and lets
    /// the handler accept the segment. Errors: [`Reason::Waits`] if it has to wait; nothing has
    /// changed then.
    #[inline]
    pub(super) fn open<H: Handler>(
        &mut self,
        hdr: &[u8; UNTAGGED_LEN],
        len: u32,
        h: &mut H,
    ) -> Result<Segment, Reason> {
        let [ddp, control] = hdr.be16::<0>().to_be_bytes();
        let is_tagged = ddp & TAGGED != 0;

        // RFC 5041 s4.1: "The value of DV MUST be the same for all the DDP Segments transmitted or
        // received on a DDP Stream." RFC 5040 s7.2: "The RDMA OpCode MUST be valid. The RDMA
        // Version MUST be valid." All is checked at once, as both versions are right nearly always,
        // and the opcode is one of RFC 5040.
        let opcode = if hdr.be16::<0>() & USUAL_MASK == USUAL {
            Opcode::from_control(control)
        } else {
            self.unusual(ddp, control)?
        };
        let opcode = opcode.ok_or(Reason::ReservedOpcode)?;

        let segment = if is_tagged {
            let Some(hdr) = hdr.first_chunk::<TAGGED_LEN>() else {
                return Err(Reason::UlpduTooShort);
            };
            self.open_tagged(&TaggedHeader::from_bytes(hdr), opcode, len, h)
        } else {
            self.open_untagged(&UntaggedHeader::from_bytes(hdr), opcode, len, h)
        };
        // An RTR never waits, so a segment that does is not the RTR.
        self.rtr_send = false;
        segment
    }

    //= 7306-8.2-3: The RDMA OpCode MUST be valid.
    //= 7306-8.2-4: The RDMA Version MUST be valid.
    //= 7306-4.1-1, 7306-4.1-2
    /// The opcode in the control fields of DDP and RDMAP, if a version is another one, or if the
    /// opcode is none of RFC 5040.
    #[cold]
    fn unusual(&self, ddp: u8, control: u8) -> Result<Option<Opcode>, Reason> {
        if ddp & VERSION_MASK != VERSION {
            return Err(match ddp & TAGGED {
                0 => Reason::UntaggedVersion,
                _ => Reason::TaggedVersion,
            });
        }
        if control & VERSION_BITS_MASK != VERSION_BITS {
            return Err(Reason::RdmapVersion);
        }
        let opcode = Opcode::from_control(control);
        Ok(opcode.filter(|opcode| {
            if opcode.is_send_immediate() {
                self.send_immediate
            } else {
                self.extensions
            }
        }))
    }

    //= 5041-4.1-1: this DDP Segment MUST be Placed into a Tagged Buffer.
    //= 5041-4.2-4: specific DDP Message MUST contain the same value for this field.
    //= 5041-4.2-9: same value for this field and MUST be the value supplied by the ULP
    //= 5041-5.2-9: and RsvdULP Fields MUST be valid for a zero-length
    //= 5041-5.2-10: The STag and TO fields MUST NOT be checked for a
    //= 5041-7.1-2: Segments, the segment MUST be validated before Placement by verifying:
    //= 5041-7.1-2e: A 64-bit unsigned sum of the DDP Segment payload
    //= 5040-4.1-5, 5040-4.2-1, 5041-5.2-2, 7306-5.2.1-7, 7306-6.3-1
    #[inline]
    fn open_tagged<H: Handler>(
        &mut self,
        hdr: &TaggedHeader,
        opcode: Opcode,
        len: u32,
        h: &mut H,
    ) -> Result<Segment, Reason> {
        // Figure 4 of RFC 5040: only RDMA Write and Read Response are tagged.
        if !opcode.is_tagged() {
            return Err(Reason::OpcodeNotTagged);
        }
        match self.tagged {
            Some(op) if op != opcode => return Err(Reason::OpcodeChanged),
            Some(_) => {}
            None => {
                self.tagged_len = 0;
                if opcode == Opcode::ReadResponse {
                    self.expect = h.expected_read().ok_or(Reason::ReadResponseUnexpected)?;
                }
            }
        }
        let offset = self.tagged_len;
        let first = offset == 0;
        // RFC 5041 s5.2: "The ULP Message Length MUST be less than 2^32."
        let end = offset.checked_add(len).ok_or(Reason::TaggedTooLong)?;

        // RFC 5041 s5.2: "The STag and TO fields MUST NOT be checked for a zero-length Tagged DDP
        // Message."
        if len != 0 {
            // RFC 5041 s7.1: "A 64-bit unsigned sum of the DDP Segment payload length and the TO
            // does not wrap."
            hdr.to.checked_add(len).ok_or(Reason::TaggedToWrap)?;
            // RFC 5041 s4.2: "Each DDP Segment within a specific DDP Message MUST contain the same
            // value for this field."
            if first {
                self.tagged_stag = hdr.stag;
            } else if hdr.stag != self.tagged_stag {
                return Err(Reason::TaggedStagChanged);
            }
        }
        let target = if opcode == Opcode::ReadResponse {
            self.check_read_response(hdr, len, end)?;
            Target::ReadResponse { offset }
        } else {
            Target::Write {
                stag: hdr.stag,
                to: hdr.to,
            }
        };
        if len != 0 {
            let placement = Placement {
                target,
                len,
                first,
                last: hdr.last,
            };
            h.begin_segment(&placement)
                .map_err(|why| Refused::Tagged.reason(why))?;
        }
        self.tagged = (!hdr.last).then_some(opcode);
        self.tagged_len = end;
        Ok(Segment {
            opcode,
            action: if len != 0 {
                Action::Place
            } else {
                Action::Skip
            },
            last: hdr.last,
            end,
            invalidate: Stag(0),
            rtr: false,
        })
    }

    /// The length of the message under way, an `opcode`, with a segment of `len` bytes that
    /// continues it and is not the last. `None` if the message must not be as long.
    #[inline]
    pub(super) fn continued(&self, opcode: Opcode, len: u32) -> Option<u32> {
        if !opcode.is_tagged() {
            return self.mo.checked_add(len);
        }
        let end = self.tagged_len.checked_add(len)?;
        (opcode == Opcode::Write || end <= self.expect.len).then_some(end)
    }

    /// Notes that the message under way, an `opcode`, has this length by now.
    #[inline]
    pub(super) fn advance(&mut self, opcode: Opcode, end: u32) {
        if opcode.is_tagged() {
            self.tagged_len = end;
        } else {
            self.mo = end;
        }
    }

    //= 5040-5.5-11: RDMA Read Response MUST be sufficient to Complete the
    //= 5040-5.2-1, 5040-5.2.2-6
    /// RFC 5040 s5.2.2: "The Data Sink MAY validate that the STag, Tagged Offset, and length of the
    /// RDMA Read Response Message are the same as the STag, Tagged Offset, and length included in
    /// the corresponding RDMA Read Request Message." This end must, or a peer could write anywhere
    /// that a local buffer is registered.
    #[inline]
    fn check_read_response(&self, hdr: &TaggedHeader, len: u32, end: u32) -> Result<(), Reason> {
        if len != 0 {
            if hdr.stag != self.expect.stag {
                return Err(Reason::ReadResponseStag);
            }
            if hdr.to != self.expect.to.wrapping_add(self.tagged_len) {
                return Err(Reason::ReadResponseTo);
            }
        }
        if end > self.expect.len {
            return Err(Reason::ReadResponseTooLong);
        }
        if hdr.last && end != self.expect.len {
            return Err(Reason::ReadResponseTooShort);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Event, Refusal};
    use super::*;
    use crate::types::{Qn, SharedByte};

    struct Accept;

    impl Handler for Accept {
        fn crc32c(&mut self, _: u32, _: &[u8]) -> u32 {
            0
        }

        fn expected_read(&mut self) -> Option<ReadExpect> {
            None
        }

        fn begin_segment(&mut self, _: &Placement) -> Result<(), Refusal> {
            Ok(())
        }

        fn place(&mut self, _: &[SharedByte], _: Option<u32>) -> Result<u32, Refusal> {
            Ok(0)
        }

        fn place_next(&mut self, _: &[SharedByte]) -> bool {
            false
        }

        fn end_segment(&mut self) -> Result<(), Refusal> {
            Ok(())
        }

        fn deliver(&mut self, _: Event) -> Result<(), Refusal> {
            Ok(())
        }
    }

    fn header(opcode: Opcode, qn: Qn, msn: u32, mo: u32, last: bool) -> [u8; UNTAGGED_LEN] {
        let header = UntaggedHeader {
            last,
            control: opcode.control(),
            invalidate: Stag(0),
            qn,
            msn: Msn(msn),
            mo,
        };
        header.to_bytes()
    }

    //= 5041-4.3-10
    /// RFC 5041 s4.3: "The MSN value MUST wrap to 0 after a value of 0xFFFFFFFF."
    #[test]
    fn msn_wraps() {
        let mut rules = Rules::new();
        rules.send_msn = Msn(u32::MAX);
        rules.read_msn = Msn(u32::MAX);
        for msn in [u32::MAX, 0, 1] {
            let send = header(Opcode::Send, Qn::SEND, msn, 0, true);
            assert!(rules.open(&send, 0, &mut Accept).is_ok());
            let read = header(Opcode::ReadRequest, Qn::READ_REQUEST, msn, 0, true);
            assert!(rules.open(&read, 28, &mut Accept).is_ok());
        }
        assert_eq!((rules.send_msn, rules.read_msn), (Msn(2), Msn(2)));
    }

    //= 5041-5.2-2
    /// RFC 5041 s5.2: "The ULP Message Length MUST be less than 2^32."
    #[test]
    fn message_length_does_not_wrap() {
        let mut rules = Rules::new();
        let first = header(Opcode::Send, Qn::SEND, 1, 0, false);
        assert!(rules.open(&first, 1, &mut Accept).is_ok());
        rules.mo = u32::MAX - 1;
        let fits = header(Opcode::Send, Qn::SEND, 1, u32::MAX - 1, false);
        assert!(rules.open(&fits, 1, &mut Accept).is_ok());
        let wraps = header(Opcode::Send, Qn::SEND, 1, u32::MAX, true);
        let error = rules.open(&wraps, 1, &mut Accept).err();
        assert_eq!(error, Some(Reason::MessageTooLong));
    }

    //= 5041-5.2-2
    #[test]
    fn tagged_message_length_does_not_wrap() {
        let mut rules = Rules::new();
        let header = TaggedHeader {
            last: false,
            control: Opcode::Write.control(),
            stag: Stag(1),
            to: crate::types::TaggedOffset(0),
        };
        let mut segment = [0; UNTAGGED_LEN];
        segment[..TAGGED_LEN].copy_from_slice(&header.to_bytes());
        assert!(rules.open(&segment, 1, &mut Accept).is_ok());
        rules.tagged_len = u32::MAX;
        let error = rules.open(&segment, 1, &mut Accept).err();
        assert_eq!(error, Some(Reason::TaggedTooLong));
    }

    #[test]
    fn continued_messages_do_not_wrap() {
        let mut rules = Rules::new();
        for opcode in [Opcode::Write, Opcode::Send] {
            rules.advance(opcode, u32::MAX - 5);
            assert_eq!(rules.continued(opcode, 5), Some(u32::MAX));
            assert_eq!(rules.continued(opcode, 6), None);
        }
        // None was asked for.
        assert_eq!(rules.continued(Opcode::ReadResponse, 1), None);
    }

    /// Every connection has a receiver, so it must be small.
    #[test]
    fn receiver_is_small() {
        let size = core::mem::size_of::<super::super::Receiver>();
        assert!(size <= 256, "{size}");
    }
}
