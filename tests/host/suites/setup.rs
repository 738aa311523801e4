// SPDX-License-Identifier: GPL-2.0

//! What the two ends of a connection agree on (RFC 5044 s7.1, RFC 6581 s9).

use iwarp::mpa::{Initiator, MpaError, Offer, Remedy, Rtr, RtrSet, FRAME_MAX, NO_NEGOTIATION};
use iwarp::TermCode;

use super::startup::{ask, enhanced, fail, negotiate, offer, reply_to, Raw, LIMITS};
use super::Outcome;

cases! { rsiw_iwarp_setup:
    crc_negotiation
    marker_negotiation
    large_fpdu_negotiation
    send_immediate_negotiation
    ird_ord_negotiation
    ird_insufficient
    no_ird_ord_negotiation
    peer_depths_are_passed_on
    rtr_negotiation
    rtr_none_in_common
    rtr_none_offered
    rtr_read_needs_depth
    rtr_flags_without_peer_to_peer
    reply_without_peer_to_peer
    reply_of_other_format
    rejected
}

//= 5044-1.2-2, 5044-4.4-2, 5044-4.4-5, 5044-4.4-6, 5044-7.1.1-10, 5044-7.1.1-11
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
            // The Reply has only the responder's own preference.
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

//= 5044-4.3-1, 5044-7.1.1-5, 5044-7.1.1-6, 5044-7.1.1-7, 5044-7.1.1-8
/// RFC 5044 s7.1.1: a sender sets M if it requires to receive markers. The engine never sets it,
/// and inserts markers if the peer sets it.
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

//= 6581-6-1
/// Large FPDUs need a reserved bit from both ends, and from the responder another one: a Reply that
/// has the Request's bits is no consent.
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
        for (flags, consent) in [(0x4c, true), (0x48, false), (0x44, false)] {
            // The bits are ignored in a Reply if the Request did not have the first.
            let agreed = reply_to(&offer, &Raw::reply(flags, 1, b""));
            check_eq!(agreed.map(|a| a.large_fpdu), Ok(mine && consent));
        }
        // A Reply tells that this end knows the bit, whether it agrees, refuses or rejects.
        let (responder, _) = ask(&Raw::request(0x40 | bit, 1, b"")).map_err(fail)?;
        let (_, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
        let knows = bit >> 1;
        let agrees = if theirs { bit } else { 0 };
        check_eq!(&buf[..len], Raw::reply(0x40 | knows | agrees, 1, b"").get());
        let len = responder.reject(b"", &mut buf).map_err(fail)?;
        check_eq!(&buf[..len], Raw::reply(0x60 | knows, 1, b"").get());
    }
    Ok(())
}

/// Sends with immediate data need a third reserved bit from both ends. In a Request it counts
/// beside the offer of large FPDUs, and in a Reply beside the bit that tells that this one is
/// known.
pub(crate) fn send_immediate_negotiation() -> Outcome {
    for all in 0..16 {
        let [large, mine, knows, theirs] = [1, 2, 4, 8].map(|bit| all & bit != 0);
        let offer = Offer {
            large_fpdu: large,
            send_immediate: mine,
            ..offer()
        };
        let answer = Offer {
            large_fpdu: knows,
            send_immediate: theirs,
            ..offer
        };
        let agree = large && mine && theirs;
        let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
        check_eq!(initiator.map(|a| a.send_immediate), Ok(agree));
        check_eq!(responder.send_immediate, agree);
        let mut buf = [0; FRAME_MAX];
        let (_, len) = Initiator::request(&offer, &mut buf).map_err(fail)?;
        let asks = match (large, mine) {
            (false, _) => 0,
            (true, false) => 0x08,
            (true, true) => 0x0a,
        };
        check_eq!(&buf[..len], Raw::request(0x40 | asks, 1, b"").get());
        for (flags, consent) in [(0x4e, true), (0x46, true), (0x4a, false), (0x42, false)] {
            let agreed = reply_to(&offer, &Raw::reply(flags, 1, b""));
            let expected = large && mine && consent;
            check_eq!(agreed.map(|a| a.send_immediate), Ok(expected));
        }
        // A Request that has the bit alone asks for nothing.
        let (responder, _) = ask(&Raw::request(0x42, 1, b"")).map_err(fail)?;
        let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
        check!(!agreed.send_immediate);
        check_eq!(&buf[..len], Raw::reply(0x40, 1, b"").get());
        let (responder, _) = ask(&Raw::request(0x4a, 1, b"")).map_err(fail)?;
        let len = responder.reject(b"", &mut buf).map_err(fail)?;
        check_eq!(&buf[..len], Raw::reply(0x64, 1, b"").get());
    }
    Ok(())
}

//= 5040-6.1-2, 5040-6.1-3, 6581-9.1-2, 6581-9.1-4
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
    // Without enhanced setup, each end keeps its own depths.
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

//= 6581-9.1-3, 6581-9.1-4, 6581-9.1-5, 6581-9.1-6
/// RFC 6581 s9.1: "the initiator MUST set its IRD at least to the responder ORD [...]. If the
/// initiator does not have sufficient resources for the required IRD, it MUST send a TERM message".
pub(crate) fn ird_insufficient() -> Outcome {
    let offer = enhanced(4, 4, RtrSet::EMPTY);
    // More than offered, but within the limits.
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &[0, 4, 0, 64]));
    check_eq!(agreed.map(|a| a.ird), Ok(64));
    // Beyond the limits. The error carries the stream's parameters, which sending the Terminate
    // needs.
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

//= 6581-9.1-8, 6581-9.1-9, 6581-9.1-10, 6581-9.1-11
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

//= 6581-9.1-1, 6581-9.1-7
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

//= 6581-9.2-3, 6581-9.2-5, 6581-9.2-7
/// RFC 6581 s9.2: the ends choose an RTR indication that both support.
pub(crate) fn rtr_negotiation() -> Outcome {
    for mine in SETS {
        for theirs in SETS {
            let offer = enhanced(4, 4, mine);
            let answer = enhanced(4, 4, theirs);
            let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
            let common = mine & theirs;
            // The Reply's options, from which the initiator may choose.
            check_eq!(
                responder.rtr_any,
                if common.is_empty() { theirs } else { common }
            );
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

//= 6581-9.2-6, 6581-9.2-8, 6581-9.2-9
/// RFC 6581 s9.2: "If the responder does not support any of the initiator-specified RTR indication
/// options, then the responder MUST set at least one RTR indication type option it supports", and
/// the initiator "MUST send a TERM message".
pub(crate) fn rtr_none_in_common() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let (responder, _) = ask(&Raw::request(0x50, 2, &[0xc0, 4, 0, 4])).map_err(fail)?;
    let answer = enhanced(4, 4, RtrSet::WRITE);
    let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(agreed.rtr_any, RtrSet::WRITE);
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

/// An initiator of the peer-to-peer model offers no RTR. It may send the one that the Reply names,
/// which the responder accepts as RTR.
pub(crate) fn rtr_none_offered() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let (responder, asked) = ask(&Raw::request(0x50, 2, &[0x80, 4, 0, 4])).map_err(fail)?;
    check!(asked.peer_to_peer && asked.rtr.is_empty());
    let answer = enhanced(4, 4, RtrSet::EMPTY);
    let (agreed, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0xc0, 4, 0xc0, 4]).get());
    check_eq!(agreed.rtr_any, RtrSet::ALL);
    check_eq!(agreed.rtr, Some(Rtr::Write));
    Ok(())
}

/// RFC 6581 s9.1: a zero-length Read as RTR needs an IRD of one in the Reply. The Reads of the ULP,
/// for which the depths are, stay excluded at both ends.
pub(crate) fn rtr_read_needs_depth() -> Outcome {
    let mut buf = [0; FRAME_MAX];
    let offer = enhanced(0, 0, RtrSet::READ);
    let answer = enhanced(0, 0, RtrSet::ALL);
    let (initiator, responder) = negotiate(&offer, &answer).map_err(fail)?;
    check_eq!((responder.ird, responder.rtr_any), (0, RtrSet::READ));
    check_eq!(initiator.map(|a| (a.rtr, a.ord)), Ok((Some(Rtr::Read), 0)));
    let (responder, _) = ask(&Raw::request(0x50, 2, &[0x80, 0, 0x40, 0])).map_err(fail)?;
    let (_, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0x80, 1, 0x40, 0]).get());
    // A responder that answers with Read and without depth does not get one.
    let got = reply_to(&offer, &Raw::reply(0x50, 2, &[0x80, 0, 0x40, 0]));
    check!(got.is_err());
    // Without depth, Send is preferred to Read.
    let offer = enhanced(0, 0, RtrSet::READ | RtrSet::SEND);
    let got = reply_to(&offer, &Raw::reply(0x50, 2, &[0xc0, 0, 0x40, 0]));
    check_eq!(got.map(|a| a.rtr), Ok(Some(Rtr::Send)));
    Ok(())
}

//= 6581-9.2-11, 6581-9.2-12, 6581-9.2-13
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
    // An initiator that did not set A ignores the responder's flags.
    let offer = enhanced(4, 4, RtrSet::EMPTY);
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &[0xc0, 4, 0xc0, 4]));
    check_eq!(agreed.map(|a| a.rtr), Ok(None));
    Ok(())
}

/// RFC 6581 s9.2: "If Control Flag A is 1 in the MPA Request message, then the responder MUST set
/// Control Flag A to 1 in the MPA reply message." One that does not is a server to its client.
pub(crate) fn reply_without_peer_to_peer() -> Outcome {
    let offer = enhanced(4, 4, RtrSet::ALL);
    let agreed = reply_to(&offer, &Raw::reply(0x50, 2, &[0x40, 3, 0xc0, 2])).map_err(fail)?;
    check_eq!((agreed.rtr, agreed.rtr_any), (None, RtrSet::EMPTY));
    check_eq!((agreed.ird, agreed.ord), (4, 3));
    // A is set, but no RTR flag: the responder then names its own.
    let mut buf = [0; FRAME_MAX];
    let (responder, asked) = ask(&Raw::request(0x50, 2, &[0x80, 4, 0, 4])).map_err(fail)?;
    check!(asked.peer_to_peer);
    let answer = enhanced(4, 4, RtrSet::WRITE);
    let (_, len) = responder.accept(&answer, &mut buf).map_err(fail)?;
    check_eq!(&buf[..len], Raw::reply(0x50, 2, &[0x80, 4, 0x80, 4]).get());
    Ok(())
}

//= 5044-7.1.2-5, 5044-7.1.2-6
/// RFC 6581 s10: the Reply has the Request's format, enhanced or not.
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

//= 5044-7.1.2-7
/// RFC 5044 s7.1.2 rule 3: a Reply with the R bit rejects, whatever its other fields are.
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
