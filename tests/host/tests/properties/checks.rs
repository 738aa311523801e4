// SPDX-License-Identifier: GPL-2.0

//! What has to hold of a stream, and of what a receiver makes of it.

use iwarp::rdmap::AtomicOp;
use iwarp::rx::Event;
use iwarp::tx::Message;
use iwarp::{Msn, Terminate};
use iwarp_sim::guard::Call;
use iwarp_sim::mpa::{segment, ulpdus, Address};
use iwarp_sim::stream::Item;

/// The address of a message that fits a segment.
pub(crate) fn whole(qn: u32, msn: Msn) -> Address {
    Address::Untagged {
        invalidate: 0,
        qn,
        msn: msn.0,
        mo: 0,
    }
}

/// Checks that an independent receiver finds these messages in the stream.
pub(crate) fn check_segments(
    items: &[Item],
    stream: &[u8],
    crc: bool,
    markers: bool,
    mulpdu: usize,
) {
    let mut found = ulpdus(stream, crc, markers)
        .expect("well-formed stream")
        .into_iter();
    for item in items {
        let mut payload: Vec<u8> = Vec::new();
        loop {
            let ulpdu = found.next().expect("segment");
            assert!(ulpdu.len() <= mulpdu, "longer than MULPDU");
            let seg = segment(&ulpdu).expect("DDP header");
            let (control, address) = match item.message {
                Message::Send {
                    msn,
                    solicited,
                    invalidate,
                } => {
                    let control = match (solicited, invalidate) {
                        (false, None) => 0x43,
                        (false, Some(_)) => 0x44,
                        (true, None) => 0x45,
                        (true, Some(_)) => 0x46,
                    };
                    let address = Address::Untagged {
                        invalidate: invalidate.map_or(0, |s| s.0),
                        qn: 0,
                        msn: msn.0,
                        mo: payload.len() as u32,
                    };
                    (control, address)
                }
                Message::SendImmediate {
                    msn,
                    solicited,
                    data,
                } => {
                    let control = if solicited { 0x4d } else { 0x4c };
                    let address = Address::Untagged {
                        invalidate: u32::from_be_bytes(data),
                        qn: 0,
                        msn: msn.0,
                        mo: payload.len() as u32,
                    };
                    (control, address)
                }
                Message::Write { stag, to } => {
                    let address = Address::Tagged {
                        stag: stag.0,
                        to: to.0 + payload.len() as u64,
                    };
                    (0x40, address)
                }
                Message::ReadRequest { msn, .. } => (0x41, whole(1, msn)),
                Message::Immediate { msn, solicited, .. } => {
                    let control = if solicited { 0x49 } else { 0x48 };
                    (control, whole(0, msn))
                }
                Message::AtomicRequest { msn, .. } => (0x4a, whole(1, msn)),
                Message::AtomicResponse { msn, .. } => (0x4b, whole(3, msn)),
                Message::ReadResponse { .. } => unreachable!(),
                Message::Terminate { .. } => (0x47, whole(2, Msn(1))),
            };
            assert_eq!((seg.control, seg.address), (control, address));
            payload.extend(seg.payload);
            if seg.last {
                break;
            }
        }
        match item.message {
            Message::ReadRequest { req, .. } => assert_eq!(payload, req.to_bytes()),
            Message::Immediate { data, .. } => assert_eq!(payload, data.0),
            Message::AtomicRequest { req, .. } => assert_eq!(payload, req.to_bytes()),
            Message::AtomicResponse { response, .. } => assert_eq!(payload, response.to_bytes()),
            Message::Terminate { term } => {
                assert_eq!(Terminate::parse(&payload), Some(term));
            }
            _ => assert!(payload == item.payload, "payload differs"),
        }
    }
    assert!(found.next().is_none(), "more segments than messages need");
}

/// Checks that the engine's receiver has found these messages.
pub(crate) fn check_events(items: &[Item], calls: &[Call]) {
    let mut events = calls.iter().filter_map(|c| match c {
        Call::Deliver(e) => Some(*e),
        _ => None,
    });
    let mut placed: Vec<u8> = Vec::new();
    let mut sent: Vec<u8> = Vec::new();
    for item in items {
        let expected = match item.message {
            Message::Send {
                solicited,
                invalidate,
                ..
            } => Event::Recv {
                len: item.payload.len() as u32,
                solicited,
                invalidate,
            },
            Message::Write { .. } => Event::Write {
                len: item.payload.len() as u32,
            },
            Message::ReadRequest { req, .. } => Event::ReadRequest(req),
            Message::SendImmediate {
                solicited, data, ..
            } => Event::RecvImmediate {
                len: item.payload.len() as u32,
                solicited,
                data,
            },
            Message::Immediate {
                data, solicited, ..
            } => Event::Immediate { data, solicited },
            Message::AtomicRequest { req, .. } => Event::AtomicRequest(req),
            Message::AtomicResponse { response, .. } => Event::AtomicResponse(response),
            Message::ReadResponse { .. } => unreachable!(),
            Message::Terminate { term } => Event::Terminate(term),
        };
        assert_eq!(events.next(), Some(expected));
        sent.extend(&item.payload);
    }
    assert_eq!(events.next(), None);
    for call in calls {
        if let Call::Place(bytes) = call {
            placed.extend(bytes);
        }
    }
    assert!(placed == sent, "bytes placed");
}

/// The pseudocode of RFC 7306 s5.1.1 and s5.1.2.
pub(crate) fn pseudocode(op: AtomicOp, original: u64) -> u64 {
    match op {
        AtomicOp::FetchAdd { add, mask } => {
            let mut bit_location = 1;
            let mut carry = 0;
            let mut value = 0;
            for bit in 0..64 {
                if bit != 0 {
                    bit_location <<= 1;
                }
                let val1 = (original & bit_location) >> bit;
                let val2 = (add & bit_location) >> bit;
                let sum = carry + val1 + val2;
                carry = (sum & 2) >> 1;
                if sum & 1 != 0 {
                    value |= bit_location;
                }
                carry = u64::from(carry != 0 && mask & bit_location == 0);
            }
            value
        }
        AtomicOp::CmpSwap {
            swap,
            swap_mask,
            compare,
            compare_mask,
        } => {
            if (compare ^ original) & compare_mask == 0 {
                (original & !swap_mask) | (swap & swap_mask)
            } else {
                original
            }
        }
        AtomicOp::Write { bytes } => u64::from_ne_bytes(bytes),
        AtomicOp::Flush(_) => original,
    }
}
