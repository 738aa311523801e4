// SPDX-License-Identifier: GPL-2.0

//! Connection setup: of two engines with each other, and of an engine with arbitrary bytes.

use iwarp::conn::names::{Call, Names, Refusal, Role, Verdict};
use iwarp::mpa::{
    Agreed, FrameKind, FrameReader, Initiator, Limits, MpaError, Offer, Remedy, Responder, Rtr,
    RtrSet, FRAME_MAX, NO_NEGOTIATION,
};

use crate::Entropy;

fn rtr(e: &mut Entropy) -> RtrSet {
    let bits = e.u8();
    [RtrSet::SEND, RtrSet::WRITE, RtrSet::READ]
        .into_iter()
        .enumerate()
        .filter(|(i, _)| (bits >> i) & 1 != 0)
        .fold(RtrSet::EMPTY, |all, (_, one)| all | one)
}

fn depth(e: &mut Entropy) -> u16 {
    match e.below(8) {
        0 => NO_NEGOTIATION,
        1 => e.u16(),
        _ => e.below(40) as u16,
    }
}

/// An arbitrary offer.
fn offer<'a>(e: &mut Entropy, private_data: &'a [u8]) -> Offer<'a> {
    Offer {
        revision: 1 + e.below(2) as u8,
        crc: e.flag(),
        ird: depth(e),
        ord: depth(e),
        rtr: rtr(e),
        large_fpdu: e.flag(),
        send_immediate: e.flag(),
        private_data,
    }
}

/// Reads a frame from `stream` in pieces. Returns the number of bytes consumed, and the reader.
fn read(e: &mut Entropy, kind: FrameKind, stream: &[u8]) -> (usize, Result<FrameReader, MpaError>) {
    let mut reader = FrameReader::new(kind);
    let mut at = 0;
    while reader.want() != 0 && at < stream.len() {
        let n = 1 + e.below(40) as usize;
        let chunk = &stream[at..stream.len().min(at + n)];
        let wanted = reader.want();
        match reader.input(chunk) {
            Ok(taken) => {
                assert!(taken <= chunk.len());
                assert!(taken != 0 || wanted == 0, "wants bytes and takes none");
                at += taken;
            }
            Err(error) => {
                assert_eq!(error.remedy(), Remedy::Close, "{error}");
                return (at, Err(error));
            }
        }
    }
    assert_eq!(reader.frame().is_some(), reader.want() == 0);
    (at, Ok(reader))
}

/// Two engines set up a connection, or one rejects it. Checks that their results agree.
pub fn run(e: &mut Entropy) {
    let data: Vec<u8> = (0..e.below(520)).map(|i| i as u8).collect();
    let limits = Limits {
        ird: e.below(64) as u16,
        ord: e.below(64) as u16,
    };
    let offer_i = offer(e, &data);
    let mut buf = [0; FRAME_MAX + 16];
    let Ok((initiator, len)) = Initiator::request(&offer_i, &mut buf) else {
        assert!(data.len() > 508);
        return;
    };
    // Bytes of an FPDU may directly follow the frame.
    let (taken, reader) = read(e, FrameKind::Request, &buf[..len + 8]);
    assert_eq!(taken, len, "takes bytes of the FPDU");
    let reader = reader.expect("Request");
    let frame = reader.frame().expect("Request");
    assert_eq!(frame.private_data(), data);
    let (responder, asked) = Responder::request(&frame).expect("Request");
    assert_eq!(asked.revision, offer_i.revision);
    let enhanced = offer_i.revision == 2;
    assert_eq!(asked.peer_to_peer, enhanced && !offer_i.rtr.is_empty());

    let data: Vec<u8> = (0..e.below(500)).map(|i| !i as u8).collect();
    let reject = e.below(8) == 0;
    let offer_r = offer(e, &data);
    let (theirs, len) = if reject {
        let len = responder.reject(&data, &mut buf).expect("Reply");
        (None, len)
    } else {
        let (agreed, len) = responder.accept(&offer_r, &mut buf).expect("Reply");
        (Some(agreed), len)
    };
    let (taken, reader) = read(e, FrameKind::Reply, &buf[..len + 8]);
    assert_eq!(taken, len, "takes bytes of the FPDU");
    let reader = reader.expect("Reply");
    let frame = reader.frame().expect("Reply");
    assert_eq!(frame.private_data(), data);
    assert_eq!(frame.enhanced().is_some(), enhanced);
    match (initiator.reply(&frame, limits), theirs) {
        (Err(MpaError::Rejected), None) => {}
        (Ok(mine), Some(theirs)) => agree(&offer_i, &offer_r, &mine, &theirs, enhanced),
        (Err(MpaError::Incompatible { crc, .. }), Some(theirs)) => {
            assert!(enhanced);
            assert_eq!(crc, theirs.crc);
        }
        (mine, theirs) => panic!("{mine:?} against {theirs:?}"),
    }
}

fn agree(i: &Offer<'_>, r: &Offer<'_>, mine: &Agreed, theirs: &Agreed, enhanced: bool) {
    assert_eq!(mine.crc, i.crc || r.crc);
    assert_eq!(theirs.crc, mine.crc);
    assert!(!mine.tx_markers && !theirs.tx_markers);
    assert_eq!(mine.large_fpdu, i.large_fpdu && r.large_fpdu);
    assert_eq!(theirs.large_fpdu, mine.large_fpdu);
    let asked = i.large_fpdu && i.send_immediate;
    assert_eq!(mine.send_immediate, asked && r.send_immediate);
    assert_eq!(theirs.send_immediate, mine.send_immediate);
    assert_eq!(mine.revision, theirs.revision);
    if !enhanced {
        assert_eq!(mine.rtr, None);
        assert_eq!(theirs.rtr, None);
        return;
    }
    // RFC 6581 s9.1: "initiator ORD <= responder IRD, responder ORD <= initiator IRD", where they
    // were negotiated. The Reply has an IRD of 1 if the RTR may be the only Read.
    if mine.peer_ird != NO_NEGOTIATION {
        assert!(mine.ord <= mine.peer_ird);
        let only_rtr = theirs.ird == 0 && theirs.rtr_any.contains(Rtr::Read);
        assert_eq!(mine.peer_ird, theirs.ird.max(only_rtr.into()));
    }
    if theirs.peer_ird != NO_NEGOTIATION {
        assert!(theirs.ord <= mine.ird);
    }
    assert_eq!(mine.rtr.is_some(), !i.rtr.is_empty());
    if let Some(rtr) = mine.rtr {
        assert!(i.rtr.contains(rtr));
        assert!(theirs.rtr_any.contains(rtr));
        if rtr == Rtr::Read {
            assert_ne!(mine.peer_ird, 0);
        }
    }
}

/// Feeds arbitrary bytes to an initiator and to a responder.
pub fn feed(e: &mut Entropy, stream: &[u8]) {
    let data = [0x42; 12];
    for kind in [FrameKind::Request, FrameKind::Reply] {
        let (at_once, whole) = {
            let mut reader = FrameReader::new(kind);
            (reader.input(stream), reader)
        };
        let (taken, pieces) = read(e, kind, stream);
        let Ok(reader) = pieces else {
            assert_eq!(at_once.err(), pieces.err());
            continue;
        };
        assert_eq!(at_once, Ok(taken), "the result depends on the pieces");
        let (Some(frame), Some(same)) = (reader.frame(), whole.frame()) else {
            assert!(whole.frame().is_none() && reader.frame().is_none());
            continue;
        };
        assert_eq!(frame.private_data(), same.private_data());
        assert!(frame.private_data().len() <= 512);
        let mut buf = [0; FRAME_MAX];
        let offer = offer(e, &data);
        match kind {
            FrameKind::Request => {
                let (responder, _) = Responder::request(&frame).expect("Request");
                let (agreed, len) = responder.accept(&offer, &mut buf).expect("Reply");
                assert!(len <= FRAME_MAX);
                assert_eq!(agreed.crc, offer.crc || frame.crc());
                call(frame.private_data());
            }
            FrameKind::Reply => {
                let (initiator, _) = Initiator::request(&offer, &mut buf).expect("Request");
                let limits = Limits { ird: 16, ord: 16 };
                if let Ok(agreed) = initiator.reply(&frame, limits) {
                    assert!(!frame.rejected());
                    assert_eq!(agreed.tx_markers, frame.markers());
                }
            }
        }
    }
}

/// Private data that may be a call by name: only the queue pair that it names, which expects the
/// one that calls, admits it, and only from and to the addresses that it names.
pub fn call(data: &[u8]) {
    let Some(call) = Call::read(data) else {
        return;
    };
    let mut again = call.to_bytes();
    // Flags have no meaning.
    again[5] = data[5];
    assert_eq!(again, data);
    let (to, from) = (call.to.gid, call.from.gid);
    let expected = Names {
        ours: call.to,
        theirs: call.from,
    };
    let mut other = expected;
    other.theirs.qpn ^= 1;
    let calls = expected.role() == Role::Responder;
    let refused = Verdict::Refuse(Refusal::Role);
    let verdict = |good| if calls { good } else { refused };
    let by_name = Verdict::Refuse(Refusal::Name);
    assert_eq!(
        call.judge(&to, &from, Some(&expected)),
        verdict(Verdict::Admit)
    );
    assert_eq!(call.judge(&to, &from, Some(&other)), verdict(by_name));
    assert_eq!(call.judge(&to, &from, None), verdict(Verdict::Park));
    if to != from {
        let strange = call.judge(&from, &to, Some(&expected));
        assert_eq!(strange, Verdict::Refuse(Refusal::Address));
    }
}
