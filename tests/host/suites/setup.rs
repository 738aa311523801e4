// SPDX-License-Identifier: GPL-2.0

//! Connection setup: frames and negotiation (RFC 5044 s7.1, RFC 6581).

use iwarp::mpa::{
    Agreed, Asked, Frame, FrameKind, FrameReader, Initiator, Limits, MpaError, Offer, Remedy,
    Responder, Rtr, RtrSet, FRAME_MAX, NO_NEGOTIATION,
};
use iwarp::TermCode;

use super::Outcome;

cases! {
    request_octets
    reply_octets
    enhanced_octets
    reject_octets
    reject_with_required_depths
    coalesced_fpdu_is_left
    frame_in_single_octets
    wrong_key
    same_role
    revisions
    private_data_limits
    enhanced_data_too_short
    reserved_bits_of_frame
    enhanced_bit_in_revision_1
    reject_bit_of_request_ignored
    crc_negotiation
    marker_negotiation
    large_fpdu_negotiation
    ird_ord_negotiation
    ird_insufficient
    no_ird_ord_negotiation
    peer_depths_are_passed_on
    rtr_negotiation
    rtr_none_in_common
    rtr_read_needs_depth
    rtr_flags_without_peer_to_peer
    reply_without_peer_to_peer
    reply_of_other_format
    rejected
    buffer_too_small
    depth_beyond_field
}

const REQUEST_KEY: &[u8] = b"\x4d\x50\x41\x20\x49\x44\x20\x52\x65\x71\x20\x46\x72\x61\x6d\x65";
const REPLY_KEY: &[u8] = b"\x4d\x50\x41\x20\x49\x44\x20\x52\x65\x70\x20\x46\x72\x61\x6d\x65";

/// An offer with defaults: revision 1, CRC, nothing else.
fn offer() -> Offer<'static> {
    Offer {
        revision: 1,
        crc: true,
        ird: 0,
        ord: 0,
        rtr: RtrSet::EMPTY,
        large_fpdu: false,
        private_data: &[],
    }
}

/// An enhanced offer.
fn enhanced(ird: u16, ord: u16, rtr: RtrSet) -> Offer<'static> {
    Offer {
        revision: 2,
        ird,
        ord,
        rtr,
        ..offer()
    }
}

const LIMITS: Limits = Limits { ird: 64, ord: 32 };

/// A frame by hand.
struct Raw {
    buf: [u8; FRAME_MAX + 8],
    len: usize,
}

impl Raw {
    fn new(key: &[u8], flags: u8, revision: u8, pd_length: u16, data: &[u8]) -> Self {
        let [a, b] = pd_length.to_be_bytes();
        let mut raw = Self {
            buf: [0; FRAME_MAX + 8],
            len: 0,
        };
        for part in [key, &[flags, revision, a, b], data] {
            if let Some(room) = raw.buf.get_mut(raw.len..raw.len + part.len()) {
                room.copy_from_slice(part);
                raw.len += part.len();
            }
        }
        raw
    }

    fn request(flags: u8, revision: u8, data: &[u8]) -> Self {
        Self::new(REQUEST_KEY, flags, revision, data.len() as u16, data)
    }

    fn reply(flags: u8, revision: u8, data: &[u8]) -> Self {
        Self::new(REPLY_KEY, flags, revision, data.len() as u16, data)
    }

    fn get(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    fn read(&self, kind: FrameKind) -> Result<FrameReader, MpaError> {
        let mut reader = FrameReader::new(kind);
        reader.input(self.get())?;
        Ok(reader)
    }
}

/// Lets a responder take this Request.
fn ask(raw: &Raw) -> Result<(Responder, Asked), MpaError> {
    let reader = raw.read(FrameKind::Request)?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    Responder::request(&frame)
}

/// Lets an initiator with this offer take this Reply.
fn reply_to(offer: &Offer<'_>, raw: &Raw) -> Result<Agreed, MpaError> {
    let (initiator, _) = Initiator::request(offer, &mut [0; FRAME_MAX])?;
    let reader = raw.read(FrameKind::Reply)?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    initiator.reply(&frame, LIMITS)
}

/// Negotiates between two engines: what initiator and responder agree on.
fn negotiate(
    offer: &Offer<'_>,
    answer: &Offer<'_>,
) -> Result<(Result<Agreed, MpaError>, Agreed), MpaError> {
    let mut buf = [0; FRAME_MAX];
    let (initiator, len) = Initiator::request(offer, &mut buf)?;
    let mut reader = FrameReader::new(FrameKind::Request);
    reader.input(buf.get(..len).unwrap_or_default())?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    let (responder, _) = Responder::request(&frame)?;
    let (theirs, len) = responder.accept(answer, &mut buf)?;
    let mut reader = FrameReader::new(FrameKind::Reply);
    reader.input(buf.get(..len).unwrap_or_default())?;
    let frame = reader.frame().ok_or(MpaError::BufferTooSmall)?;
    Ok((initiator.reply(&frame, LIMITS), theirs))
}

/// RFC 5044 Figure 8.
pub(crate) fn request_octets() -> Outcome {
    let mut buf = [0xee; FRAME_MAX];
    let offer = Offer {
        private_data: b"hello",
        ..offer()
    };
    let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
    let expected = Raw::request(0x40, 1, b"hello");
    check_eq!(&buf[..len], expected.get());
    check_eq!(len, 25);
    // An administrator has CRCs turned off.
    let plain = Offer {
        crc: false,
        ..offer
    };
    let (_, len) = Initiator::request(&plain, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::request(0x00, 1, b"hello").get());
    Ok(())
}

fn fail(_: MpaError) -> super::Failed {
    super::Failed {
        line: 0,
        what: "unexpected MpaError",
    }
}

/// RFC 5044 Figure 8.
pub(crate) fn reply_octets() -> Outcome {
    let mut buf = [0xee; FRAME_MAX];
    let (responder, _) = ask(&Raw::request(0x40, 1, b"hello")).map_err(fail)?;
    let answer = Offer {
        private_data: b"welcome",
        ..offer()
    };
    let (_, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x40, 1, b"welcome").get());
    Ok(())
}

/// RFC 6581 s6 and s9: S, then A B IRD C D ORD.
pub(crate) fn enhanced_octets() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    for (rtr, data) in [
        (RtrSet::EMPTY, [0x01, 0x02, 0x03, 0x04]),
        (RtrSet::SEND, [0xc1, 0x02, 0x03, 0x04]),
        (RtrSet::WRITE, [0x81, 0x02, 0x83, 0x04]),
        (RtrSet::READ, [0x81, 0x02, 0x43, 0x04]),
        (RtrSet::ALL, [0xc1, 0x02, 0xc3, 0x04]),
    ] {
        let offer = enhanced(0x0102, 0x0304, rtr);
        let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
        check_eq!(&buf[..len], Raw::request(0x50, 2, &data).get());

        let (responder, asked) = ask(&Raw::request(0x50, 2, &data)).map_err(fail)?;
        let expected = Asked {
            revision: 2,
            ird: 0x0102,
            ord: 0x0304,
            peer_to_peer: !rtr.is_empty(),
            rtr,
        };
        check_eq!(asked, expected);
        let answer = Offer {
            ird: 0x0304,
            ord: 0x0102,
            ..offer
        };
        let (_, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
        let [a, b, c, d] = data;
        let data = [(a & 0xc0) | (c & 0x3f), d, (c & 0xc0) | (a & 0x3f), b];
        check_eq!(&buf[..len], Raw::reply(0x50, 2, &data).get());
    }
    Ok(())
}

/// RFC 5044 s7.1.1: R, and Private Data.
pub(crate) fn reject_octets() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let (responder, _) = ask(&Raw::request(0x40, 1, b"")).map_err(fail)?;
    let len = responder.reject(b"no", &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x60, 1, b"no").get());
    Ok(())
}

/// RFC 6581 s9.1: "specify the required ORD in the MPA Reject Frame responder ORD".
pub(crate) fn reject_with_required_depths() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let raw = Raw::request(0x50, 2, &[0, 1, 0, 2]);
    let (responder, _) = ask(&raw).map_err(fail)?;
    let len = responder.reject_for(3, 9, b"no", &mut buf).map_err(fail)?;
    let expected = Raw::reply(0x70, 2, &[0, 3, 0, 9, b'n', b'o']);
    check_eq!(&buf[..len], expected.get());
    // Without a reason, the initiator's own depths.
    let len = responder.reject(b"", &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x70, 2, &[0, 2, 0, 1]).get());

    let reader = expected.read(FrameKind::Reply).map_err(fail)?;
    let Some(frame) = reader.frame() else {
        check!(false);
        return Ok(());
    };
    check!(frame.rejected());
    check_eq!(frame.enhanced().map(|e| (e.ird, e.ord)), Some((3, 9)));
    check_eq!(frame.private_data(), b"no");
    Ok(())
}

/// The first FPDU may come in the same TCP segment as the frame.
pub(crate) fn coalesced_fpdu_is_left() -> Outcome {
    for data in [&b""[..], b"x", b"four", &[7; 512]] {
        let raw = Raw::request(0x40, 1, data);
        let mut stream = [0xab; FRAME_MAX + 40];
        stream[..raw.len].copy_from_slice(raw.get());
        let mut reader = FrameReader::new(FrameKind::Request);
        check_eq!(reader.input(&stream), Ok(raw.len));
        check_eq!(reader.want(), 0);
        check_eq!(reader.input(&stream[raw.len..]), Ok(0));
        check_eq!(reader.frame().map(|f| f.private_data() == data), Some(true));
    }
    Ok(())
}

/// A frame may come in any pieces.
pub(crate) fn frame_in_single_octets() -> Outcome {
    let raw = Raw::reply(0x40, 1, b"pieces");
    let mut reader = FrameReader::new(FrameKind::Reply);
    for octet in raw.get() {
        check!(reader.frame().is_none());
        check!(reader.want() > 0);
        check_eq!(reader.input(&[*octet]), Ok(1));
    }
    check_eq!(reader.want(), 0);
    let frame = reader.frame();
    check_eq!(frame.map(|f| f.private_data() == b"pieces"), Some(true));
    check_eq!(frame.map(|f| f.kind()), Some(FrameKind::Reply));
    Ok(())
}

/// RFC 5044 s7.1.1: the receivers "MUST check this field for the same value, and close the
/// connection".
pub(crate) fn wrong_key() -> Outcome {
    for at in 0..16 {
        let mut raw = Raw::request(0x40, 1, b"");
        raw.buf[at] ^= 0x80;
        let got = raw.read(FrameKind::Request).err();
        check_eq!(got, Some(MpaError::Key));
        check_eq!(got.map(|e| e.remedy()), Some(Remedy::Close));
        // It shows as soon as the octet is there.
        let mut reader = FrameReader::new(FrameKind::Request);
        check_eq!(reader.input(&raw.get()[..at]), Ok(at));
        check_eq!(reader.input(&raw.get()[at..at + 1]), Err(MpaError::Key));
    }
    let mut reader = FrameReader::new(FrameKind::Request);
    check_eq!(reader.input(b"GET / HTTP/1.1\r\n"), Err(MpaError::Key));
    Ok(())
}

/// RFC 5044 s7.1.2 rule 8: "check for incorrect "Initiator/Initiator" startups".
pub(crate) fn same_role() -> Outcome {
    let request = Raw::request(0x40, 1, b"");
    let got = request.read(FrameKind::Reply).err();
    check_eq!(got, Some(MpaError::SameRole));
    let reply = Raw::reply(0x40, 1, b"");
    check_eq!(
        reply.read(FrameKind::Request).err(),
        Some(MpaError::SameRole)
    );
    // Nor does a typestate take the wrong frame.
    let reader = request.read(FrameKind::Request).map_err(fail)?;
    let (initiator, _) = Initiator::request(&offer(), &mut [0; FRAME_MAX]).map_err(fail)?;
    let got = reader.frame().map(|f| initiator.reply(&f, LIMITS));
    check_eq!(got, Some(Err(MpaError::SameRole)));
    let reader = reply.read(FrameKind::Reply).map_err(fail)?;
    let got = reader.frame().map(|f| Responder::request(&f).is_err());
    check_eq!(got, Some(true));
    Ok(())
}

/// RFC 5044 s7.1.1: "If the MPA receiver cannot interoperate with the received version, then it MUST
/// close the connection"; RFC 6581 s6: it must accept version one still.
pub(crate) fn revisions() -> Outcome {
    for revision in 0..=255 {
        let raw = Raw::request(0x40, revision, b"");
        let got = ask(&raw).map(|(_, asked)| asked.revision);
        if revision == 1 || revision == 2 {
            check_eq!(got, Ok(revision));
        } else {
            check_eq!(got, Err(MpaError::Revision(revision)));
        }
    }
    let bad = Offer {
        revision: 3,
        ..offer()
    };
    let got = Initiator::request(&bad, &mut [0; FRAME_MAX]).err();
    check_eq!(got, Some(MpaError::Revision(3)));
    Ok(())
}

/// RFC 5044 s7.1.1: "The Private Data field MUST be between 0 and 512 octets in length."
pub(crate) fn private_data_limits() -> Outcome {
    let data = [0x5a; 513];
    let raw = Raw::request(0x40, 1, &data[..512]);
    check!(ask(&raw).is_ok());
    for length in [513, 514, 0x8000, 0xffff] {
        let raw = Raw::new(REQUEST_KEY, 0x40, 1, length, &[]);
        let got = raw.read(FrameKind::Request).err();
        check_eq!(got, Some(MpaError::PrivateDataLength(length)));
        check_eq!(got.map(|e| e.remedy()), Some(Remedy::Close));
    }
    let mut buf = [0; FRAME_MAX];
    // RFC 6581 s9: "The maximum amount of ULP-specified Private Data is therefore reduced by 4
    // bytes."
    for (revision, most) in [(1, 512), (2, 508)] {
        for (len, fits) in [(most, true), (most + 1, false)] {
            let offer = Offer {
                revision,
                private_data: &data[..len],
                ..offer()
            };
            let got = Initiator::request(&offer, &mut buf);
            check_eq!(got.is_ok(), fits);
            if !fits {
                check_eq!(got.err(), Some(MpaError::PrivateDataTooLong));
            }
        }
    }
    check_eq!(MpaError::PrivateDataTooLong.remedy(), Remedy::Correct);
    Ok(())
}

/// RFC 6581 s6: "if the 'S' flag is set, Private Data MUST begin with enhanced RDMA connection
/// establishment data".
pub(crate) fn enhanced_data_too_short() -> Outcome {
    for len in 0..4 {
        let raw = Raw::request(0x50, 2, &[0, 1, 0][..len.min(3)]);
        let got = raw.read(FrameKind::Request).err();
        check_eq!(got, Some(MpaError::PrivateDataLength(len.min(3) as u16)));
    }
    check!(ask(&Raw::request(0x50, 2, &[0, 1, 0, 1])).is_ok());
    Ok(())
}

/// RFC 5044 s7.1.1: Res is "not checked on reception".
pub(crate) fn reserved_bits_of_frame() -> Outcome {
    for revision in [1, 2] {
        let raw = Raw::request(0x4f, revision, b"data");
        let reader = raw.read(FrameKind::Request).map_err(fail)?;
        let data = reader.frame().map(|f| f.private_data() == b"data");
        check_eq!(data, Some(true));
    }
    Ok(())
}

/// In revision 1 the S bit is one of the reserved bits.
pub(crate) fn enhanced_bit_in_revision_1() -> Outcome {
    let raw = Raw::request(0x50, 1, b"data");
    let reader = raw.read(FrameKind::Request).map_err(fail)?;
    let Some(frame) = reader.frame() else {
        check!(false);
        return Ok(());
    };
    check!(frame.enhanced().is_none());
    check_eq!(frame.private_data(), b"data");
    // And revision 2 without it is not enhanced.
    let raw = Raw::request(0x40, 2, b"data");
    let reader = raw.read(FrameKind::Request).map_err(fail)?;
    check_eq!(reader.frame().map(|f| f.enhanced().is_none()), Some(true));
    let (responder, asked) = ask(&raw).map_err(fail)?;
    check_eq!((asked.ird, asked.ord), (NO_NEGOTIATION, NO_NEGOTIATION));
    let mut buf = [0; FRAME_MAX];
    let (_, len) = responder.accept(&offer(), &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x40, 2, b"").get());
    Ok(())
}

/// RFC 5044 s7.1.1: R is "not checked on reception in the MPA Request Frame".
pub(crate) fn reject_bit_of_request_ignored() -> Outcome {
    let raw = Raw::request(0x60, 1, b"");
    let reader = raw.read(FrameKind::Request).map_err(fail)?;
    check_eq!(reader.frame().map(|f: Frame<'_>| f.rejected()), Some(false));
    check!(ask(&raw).is_ok());
    Ok(())
}

/// RFC 5044 s7.1.1: CRCs are in use if either end's C bit is set.
pub(crate) fn crc_negotiation() -> Outcome {
    for revision in [1, 2] {
        for (mine, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
            let offer = Offer {
                revision,
                crc: mine,
                ..offer()
            };
            let answer = Offer {
                crc: theirs,
                ..offer
            };
            let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
            check_eq!(initiator.map(|a| a.crc), Ok(mine || theirs));
            check_eq!(responder.crc, mine || theirs);
            // A Reply of a responder that states only its own preference.
            let c = if theirs { 0x40 } else { 0 };
            let raw = if revision == 1 {
                Raw::reply(c, 1, b"")
            } else {
                Raw::reply(c | 0x10, 2, &[0; 4])
            };
            let agreed = reply_to(&offer, &raw);
            check_eq!(agreed.map(|a| a.crc), Ok(mine || theirs));
        }
    }
    Ok(())
}

/// RFC 5044 s7.1.1: M of either frame declares what its sender requires to receive; this end never
/// does, and inserts markers when the peer does.
pub(crate) fn marker_negotiation() -> Outcome {
    for (flags, markers) in [(0x40, false), (0xc0, true)] {
        let (responder, _) = ask(&Raw::request(flags, 1, b"")).map_err(fail)?;
        let mut buf = [0; FRAME_MAX];
        let (agreed, len) = responder.accept(&offer(), &mut buf).map_err(fail)?;
        check_eq!(agreed.tx_markers, markers);
        check_eq!(&buf[..len], Raw::reply(0x40, 1, b"").get());
        let agreed = reply_to(&offer(), &Raw::reply(flags, 1, b""));
        check_eq!(agreed.map(|a| a.tx_markers), Ok(markers));
    }
    Ok(())
}

/// The experimental bit needs both ends.
pub(crate) fn large_fpdu_negotiation() -> Outcome {
    for (mine, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let offer = Offer {
            large_fpdu: mine,
            ..offer()
        };
        let answer = Offer {
            large_fpdu: theirs,
            ..offer
        };
        let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
        check_eq!(initiator.map(|a| a.large_fpdu), Ok(mine && theirs));
        check_eq!(responder.large_fpdu, mine && theirs);
        let mut buf = [0; FRAME_MAX];
        let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
        let bit = if mine { 0x08 } else { 0 };
        check_eq!(&buf[..len], Raw::request(0x40 | bit, 1, b"").get());
        // One that sets it unasked is not believed.
        let agreed = reply_to(&offer, &Raw::reply(0x48, 1, b""));
        check_eq!(agreed.map(|a| a.large_fpdu), Ok(mine));
    }
    Ok(())
}

/// RFC 6581 s9.1: initiator ORD <= responder IRD, responder ORD <= initiator IRD.
pub(crate) fn ird_ord_negotiation() -> Outcome {
    let depths = [0, 1, 2, 16, 32, 64];
    for ird in depths {
        for ord in depths {
            for their_ird in depths {
                for their_ord in depths {
                    let offer = enhanced(ird, ord, RtrSet::EMPTY);
                    let answer = enhanced(their_ird, their_ord, RtrSet::EMPTY);
                    let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
                    let initiator = initiator.map_err(fail)?;
                    check_eq!(initiator.ird, ird);
                    check_eq!(initiator.ord, ord.min(their_ird));
                    check_eq!(responder.ird, their_ird);
                    check_eq!(responder.ord, their_ord.min(ird));
                    check_eq!(initiator.rtr, None);
                    check_eq!(responder.rtr, None);
                }
            }
        }
    }
    // Unenhanced, each end keeps what it has.
    let offer = Offer {
        ird: 5,
        ord: 6,
        ..offer()
    };
    let (initiator, responder) = negotiate(&offer, &offer).map_err(fail)?;
    check_eq!(initiator.map(|a| (a.ird, a.ord)), Ok((5, 6)));
    check_eq!((responder.ird, responder.ord), (5, 6));
    Ok(())
}

/// RFC 6581 s9.1: "the initiator MUST set its IRD at least to the responder ORD [...]. If the
/// initiator does not have sufficient resources for the required IRD, it MUST send a TERM message".
pub(crate) fn ird_insufficient() -> Outcome {
    let offer = enhanced(4, 4, RtrSet::EMPTY);
    // More than offered, within limits.
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &[0, 4, 0, 64]));
    check_eq!(agreed.map(|a| a.ird), Ok(64));
    // Beyond them. The Terminate needs the stream's parameters.
    let got = reply_to(&offer, &Raw::reply(0xd0, 2, &[0, 4, 0, 65])).err();
    let expected = MpaError::Incompatible {
        code: TermCode::MPA_INSUFFICIENT_IRD,
        crc: true,
        tx_markers: true,
    };
    check_eq!(got, Some(expected));
    check_eq!(
        expected.remedy(),
        Remedy::Terminate(TermCode::MPA_INSUFFICIENT_IRD)
    );
    Ok(())
}

/// RFC 6581 s9.1 on 0x3FFF, in all four places.
pub(crate) fn no_ird_ord_negotiation() -> Outcome {
    let none = [0x3f, 0xff, 0x3f, 0xff];
    let mut buf = [0; FRAME_MAX];
    let offer = enhanced(NO_NEGOTIATION, NO_NEGOTIATION, RtrSet::EMPTY);
    let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::request(0x50, 2, &none).get());
    // "The responder MUST respond to an initiator ORD value of 0x3FFF by leaving its local endpoint
    // IRD value unchanged and setting the IRD to 0x3FFF in its reply message."
    let (responder, _) = ask(&Raw::request(0x50, 2, &[0, 7, 0x3f, 0xff])).map_err(fail)?;
    let answer = enhanced(10, 20, RtrSet::EMPTY);
    let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!((agreed.ird, agreed.ord), (10, 7));
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0x3f, 0xff, 0, 7]).get());
    // And the same with IRD and ORD exchanged.
    let (responder, _) = ask(&Raw::request(0x50, 2, &[0x3f, 0xff, 0, 7])).map_err(fail)?;
    let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!((agreed.ird, agreed.ord), (10, 20));
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0, 10, 0x3f, 0xff]).get());
    // "The initiator MUST leave its local endpoint ORD value unchanged upon receiving a responder
    // IRD value of 0x3FFF", and the same for IRD and ORD.
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &none));
    check_eq!(agreed.map(|a| (a.ird, a.ord)), Ok((LIMITS.ird, LIMITS.ord)));
    let offer = enhanced(3, 5, RtrSet::EMPTY);
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &none));
    check_eq!(agreed.map(|a| (a.ird, a.ord)), Ok((3, 5)));
    Ok(())
}

/// RFC 6581 s9.1: "The responder and initiator MUST pass the peer's provided IRD and ORD values to
/// the ULP".
pub(crate) fn peer_depths_are_passed_on() -> Outcome {
    let offer = enhanced(3, 5, RtrSet::EMPTY);
    let answer = enhanced(7, 11, RtrSet::EMPTY);
    let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
    check_eq!(initiator.map(|a| (a.peer_ird, a.peer_ord)), Ok((7, 3)));
    check_eq!((responder.peer_ird, responder.peer_ord), (3, 5));
    let plain = Offer {
        revision: 1,
        ..offer
    };
    let (initiator, responder) = negotiate(&plain, &plain).map_err(fail)?;
    let unknown = (NO_NEGOTIATION, NO_NEGOTIATION);
    check_eq!(initiator.map(|a| (a.peer_ird, a.peer_ord)), Ok(unknown));
    check_eq!((responder.peer_ird, responder.peer_ord), unknown);
    Ok(())
}

const SETS: [RtrSet; 4] = [RtrSet::SEND, RtrSet::WRITE, RtrSet::READ, RtrSet::ALL];

/// RFC 6581 s9.2: one of the indications that both ends support.
pub(crate) fn rtr_negotiation() -> Outcome {
    for mine in SETS {
        for theirs in SETS {
            let offer = enhanced(4, 4, mine);
            let answer = enhanced(4, 4, theirs);
            let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
            let common = mine & theirs;
            check_eq!(responder.rtr_any, common);
            match initiator {
                Ok(agreed) => {
                    check_eq!(agreed.rtr_any, common);
                    check_eq!(agreed.rtr, common.preferred());
                    check_eq!(agreed.rtr.is_some_and(|r| common.contains(r)), true);
                }
                Err(_) => check!(common.is_empty()),
            }
        }
        // "The responder MUST support at least one RTR indication option": one without preference
        // supports them all.
        let offer = enhanced(4, 4, mine);
        let answer = enhanced(4, 4, RtrSet::EMPTY);
        let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
        check_eq!(initiator.map(|a| a.rtr), Ok(mine.preferred()));
        check_eq!(responder.rtr_any, mine);
        check_eq!(responder.rtr, mine.preferred());
    }
    check_eq!(RtrSet::ALL.preferred(), Some(Rtr::Write));
    let without_write = RtrSet::ALL.without(Rtr::Write);
    check_eq!(without_write.preferred(), Some(Rtr::Read));
    check_eq!((RtrSet::SEND | RtrSet::EMPTY).preferred(), Some(Rtr::Send));
    check_eq!(RtrSet::EMPTY.preferred(), None);
    Ok(())
}

/// RFC 6581 s9.2: "If the responder does not support any of the initiator-specified RTR indication
/// options, then the responder MUST set at least one RTR indication type option it supports", and the
/// initiator "MUST send a TERM message".
pub(crate) fn rtr_none_in_common() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let (responder, _) = ask(&Raw::request(0x50, 2, &[0xc0, 4, 0, 4])).map_err(fail)?;
    let answer = enhanced(4, 4, RtrSet::WRITE);
    let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(agreed.rtr, None);
    let reply = Raw::reply(0x50, 2, &[0x80, 4, 0x80, 4]);
    check_eq!(&buf[..len], reply.get());
    let got = reply_to(&enhanced(4, 4, RtrSet::SEND), &reply).err();
    let expected = MpaError::Incompatible {
        code: TermCode::MPA_NO_MATCHING_RTR,
        crc: true,
        tx_markers: false,
    };
    check_eq!(got, Some(expected));
    Ok(())
}

/// RFC 6581 s9.1: a zero-length Read as RTR needs an IRD of one.
pub(crate) fn rtr_read_needs_depth() -> Outcome {
    let offer = enhanced(0, 0, RtrSet::READ);
    let answer = enhanced(0, 0, RtrSet::ALL);
    let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
    check_eq!(responder.ird, 1);
    check_eq!(initiator.map(|a| (a.rtr, a.ord)), Ok((Some(Rtr::Read), 1)));
    // A responder that answers with Read and without depth does not get one.
    let got = reply_to(&offer, &Raw::reply(0x50, 2, &[0x80, 0, 0x40, 0]));
    check!(got.is_err());
    // Nor is it preferred to Send then.
    let offer = enhanced(0, 0, RtrSet::READ | RtrSet::SEND);
    let got = reply_to(&offer, &Raw::reply(0x50, 2, &[0xc0, 0, 0x40, 0]));
    check_eq!(got.map(|a| a.rtr), Ok(Some(Rtr::Send)));
    Ok(())
}

/// RFC 6581 s9.2: "On reception, if Control Flag A is set to 0, then Control Flags B, C, and D MUST
/// be ignored."
pub(crate) fn rtr_flags_without_peer_to_peer() -> Outcome {
    let raw = Raw::request(0x50, 2, &[0x40, 4, 0xc0, 4]);
    let (responder, asked) = ask(&raw).map_err(fail)?;
    check!(!asked.peer_to_peer);
    check!(asked.rtr.is_empty());
    // "The responder MUST set Control Flag A to 0 if Control Flag A is 0 in the request."
    let mut buf = [0; FRAME_MAX];
    let answer = enhanced(4, 4, RtrSet::ALL);
    let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0, 4, 0, 4]).get());
    check_eq!(agreed.rtr, None);
    // An initiator that did not ask for it does not care what the responder sets.
    let offer = enhanced(4, 4, RtrSet::EMPTY);
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &[0xc0, 4, 0xc0, 4]));
    check_eq!(agreed.map(|a| a.rtr), Ok(None));
    Ok(())
}

/// RFC 6581 s9.2: "If Control Flag A is 1 in the MPA Request message, then the responder MUST set
/// Control Flag A to 1 in the MPA reply message."
pub(crate) fn reply_without_peer_to_peer() -> Outcome {
    let offer = enhanced(4, 4, RtrSet::ALL);
    let got = reply_to(&offer, &Raw::reply(0x50, 2, &[0x40, 4, 0xc0, 4])).err();
    let remedy = got.map(|e| e.remedy());
    let expected = Remedy::Terminate(TermCode::MPA_NO_MATCHING_RTR);
    check_eq!(remedy, Some(expected));
    // All three flags clear although A is set: the responder names its own then.
    let mut buf = [0; FRAME_MAX];
    let (responder, asked) = ask(&Raw::request(0x50, 2, &[0x80, 4, 0, 4])).map_err(fail)?;
    check!(asked.peer_to_peer);
    let answer = enhanced(4, 4, RtrSet::WRITE);
    let (_, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0x80, 4, 0x80, 4]).get());
    Ok(())
}

/// RFC 6581 s10: enhanced is answered with enhanced, unenhanced with unenhanced.
pub(crate) fn reply_of_other_format() -> Outcome {
    let offer2 = enhanced(4, 4, RtrSet::EMPTY);
    for raw in [
        Raw::reply(0x40, 1, b""),
        Raw::reply(0x40, 2, b""),
        Raw::reply(0x50, 1, &[0; 4]),
    ] {
        let got = reply_to(&offer2, &raw).err();
        check_eq!(got, Some(MpaError::ReplyFormat));
    }
    let got = reply_to(&offer(), &Raw::reply(0x50, 2, &[0, 4, 0, 4])).err();
    check_eq!(got, Some(MpaError::ReplyFormat));
    check_eq!(got.map(|e| e.remedy()), Some(Remedy::Close));
    Ok(())
}

/// RFC 5044 s7.1.2 rule 3: a Reply with the R bit, whatever else it says.
pub(crate) fn rejected() -> Outcome {
    let mut all = true;
    for offer in [offer(), enhanced(1, 1, RtrSet::ALL)] {
        for raw in [
            Raw::reply(0x60, 1, b"why"),
            Raw::reply(0x70, 2, &[0, 1, 0, 1, 2]),
            Raw::reply(0xe0, 2, b""),
        ] {
            let got = reply_to(&offer, &raw).err();
            all &= got == Some(MpaError::Rejected);
        }
    }
    check!(all);
    check_eq!(MpaError::Rejected.remedy(), Remedy::ReportRejected);
    Ok(())
}

/// Nothing is written beyond the caller's buffer.
pub(crate) fn buffer_too_small() -> Outcome {
    let offer = Offer {
        private_data: b"data",
        ..offer()
    };
    for len in 0..24 {
        let got = Initiator::request(&offer, &mut [0; 24][..len]).err();
        check_eq!(got, Some(MpaError::BufferTooSmall));
    }
    check!(Initiator::request(&offer, &mut [0; 24]).is_ok());
    Ok(())
}

/// IRD and ORD have 14 bits.
pub(crate) fn depth_beyond_field() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let offer = enhanced(0x4000, 0xffff, RtrSet::EMPTY);
    let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
    let data = [0x3f, 0xfe, 0x3f, 0xfe];
    check_eq!(&buf[..len], Raw::request(0x50, 2, &data).get());
    let (responder, _) = ask(&Raw::request(0x50, 2, &data)).map_err(fail)?;
    let answer = enhanced(NO_NEGOTIATION, 0xffff, RtrSet::EMPTY);
    let (agreed, _) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!((agreed.ird, agreed.ord), (0x3ffe, 0x3ffe));
    Ok(())
}
