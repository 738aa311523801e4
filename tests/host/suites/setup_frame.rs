// SPDX-License-Identifier: GPL-2.0

//! MPA Request and Reply Frames on the wire (RFC 5044 s7.1.1, RFC 6581 s6).

use iwarp::mpa::{
    Asked, Frame, FrameKind, FrameReader, Initiator, MpaError, Offer, Remedy, Responder, RtrSet,
    FRAME_MAX, NO_NEGOTIATION,
};

use super::startup::{ask, enhanced, fail, offer, Raw, LIMITS, REQUEST_KEY};
use super::Outcome;

cases! { rsiw_iwarp_setup_frame:
    request_bytes
    reply_bytes
    enhanced_bytes
    reject_bytes
    reject_with_required_depths
    coalesced_fpdu_is_left
    frame_in_single_bytes
    wrong_key
    same_role
    revisions
    private_data_limits
    enhanced_data_too_short
    reserved_bits_of_frame
    enhanced_bit_in_revision_1
    reject_bit_of_request_ignored
    buffer_too_small
    depth_beyond_field
}

//= 5044-7.1.1-1, 5044-7.1.1-13, 5044-7.1.1-14, 5044-7.1.1-17, 5044-7.1.2-1, 6581-10-3
/// RFC 5044 Figure 8.
pub(crate) fn request_bytes() -> Outcome {
    let mut buf = [0xee; FRAME_MAX];
    let offer = Offer {
        private_data: b"hello",
        ..offer()
    };
    let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
    let expected = Raw::request(0x40, 1, b"hello");
    check_eq!(&buf[..len], expected.get());
    check_eq!(len, 25);
    // An administrator has disabled CRCs.
    let plain = Offer {
        crc: false,
        ..offer
    };
    let (_, len) = Initiator::request(&plain, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::request(0x00, 1, b"hello").get());
    Ok(())
}

//= 5044-7.1.1-3, 5044-7.1.1-14, 6581-10-2, 6581-10-4, 6581-10-6
/// RFC 5044 Figure 8.
pub(crate) fn reply_bytes() -> Outcome {
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

//= 5044-7.1.1-14, 6581-6-2, 6581-6-4, 6581-9-1, 6581-9.2-1, 6581-9.2-2, 6581-9.2-4, 6581-9.2-10,
//= 6581-10-1, 6581-10-5
/// RFC 6581 s6 and s9: S, then A B IRD C D ORD.
pub(crate) fn enhanced_bytes() -> Outcome {
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

//= 5044-7.1.2-4, 6581-10-2
/// RFC 5044 s7.1.1: R, and Private Data.
pub(crate) fn reject_bytes() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let (responder, _) = ask(&Raw::request(0x40, 1, b"")).map_err(fail)?;
    let len = responder.reject(b"no", &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x60, 1, b"no").get());
    Ok(())
}

//= 6581-9.1-7, 6581-10-1
/// RFC 6581 s9.1: "specify the required ORD in the MPA Reject Frame responder ORD".
pub(crate) fn reject_with_required_depths() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let raw = Raw::request(0x50, 2, &[0, 1, 0, 2]);
    let (responder, _) = ask(&raw).map_err(fail)?;
    let len = responder.reject_for(3, 9, b"no", &mut buf).map_err(fail)?;
    let expected = Raw::reply(0x70, 2, &[0, 3, 0, 9, b'n', b'o']);
    check_eq!(&buf[..len], expected.get());
    // A reject for another reason has the initiator's own depths.
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

//= 5044-7.1-1, 5044-7.1.2-12
/// The first FPDU may share the frame's TCP segment; the reader leaves it.
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

//= 5044-7.1.2-2
/// A frame may arrive in any pieces.
pub(crate) fn frame_in_single_bytes() -> Outcome {
    let raw = Raw::reply(0x40, 1, b"pieces");
    let mut reader = FrameReader::new(FrameKind::Reply);
    for byte in raw.get() {
        check!(reader.frame().is_none());
        check!(reader.want() > 0);
        check_eq!(reader.input(&[*byte]), Ok(1));
    }
    check_eq!(reader.want(), 0);
    let frame = reader.frame();
    check_eq!(frame.map(|f| f.private_data() == b"pieces"), Some(true));
    check_eq!(frame.map(|f| f.kind()), Some(FrameKind::Reply));
    Ok(())
}

//= 5044-7.1.1-2, 5044-7.1.2-3, 5044-7.1.2-9, 5044-8-1, 5044-8-2
/// RFC 5044 s7.1.1: the receivers "MUST check this field for the same value, and close the
/// connection".
pub(crate) fn wrong_key() -> Outcome {
    for at in 0..16 {
        let mut raw = Raw::request(0x40, 1, b"");
        raw.buf[at] ^= 0x80;
        let got = raw.read(FrameKind::Request).err();
        check_eq!(got, Some(MpaError::Key));
        check_eq!(got.map(|e| e.remedy()), Some(Remedy::Close));
        // The reader reports it at the first wrong byte.
        let mut reader = FrameReader::new(FrameKind::Request);
        check_eq!(reader.input(&raw.get()[..at]), Ok(at));
        check_eq!(reader.input(&raw.get()[at..at + 1]), Err(MpaError::Key));
    }
    let mut reader = FrameReader::new(FrameKind::Request);
    check_eq!(reader.input(b"GET / HTTP/1.1\r\n"), Err(MpaError::Key));
    Ok(())
}

//= 5044-7.1.1-4, 5044-7.1.2-10
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
    // The states of initiator and responder refuse it, too.
    let reader = request.read(FrameKind::Request).map_err(fail)?;
    let (initiator, _) = Initiator::request(&offer(), &mut [0; FRAME_MAX]).map_err(fail)?;
    let got = reader.frame().map(|f| initiator.reply(&f, LIMITS));
    check_eq!(got, Some(Err(MpaError::SameRole)));
    let reader = reply.read(FrameKind::Reply).map_err(fail)?;
    let got = reader.frame().map(|f| Responder::request(&f).is_err());
    check_eq!(got, Some(true));
    Ok(())
}

//= 5044-3-7, 5044-7.1.1-15, 5044-7.1.1-16, 5044-C.1-1, 6581-6-3
/// RFC 5044 s7.1.1: "If the MPA receiver cannot interoperate with the received version, then it
/// MUST close the connection"; RFC 6581 s6: it must accept version one still.
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

//= 5044-7.1.1-18, 5044-7.1.1-19, 5044-7.1.2-11, 5044-7.1.2-12, 5044-7.1.2-13, 6581-7-3
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

//= 6581-6-4
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

//= 5044-7.1.1-13, 6581-6-1
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

//= 6581-6-1, 6581-10-6
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
