// SPDX-License-Identifier: GPL-2.0

//! Immediate Data (RFC 7306 s6).

use iwarp::rdmap::Immediate;
use iwarp::rx::{Event, FaultKind, Placement, Refusal, Target};
use iwarp::TermCode;

use super::probe::extended::{code, receiver, terminate_for, verdict};
use super::probe::{receive, Call, Probe};
use super::wire::{
    fpdu, halves, immediate, op, read_header, read_request, send, terminate, untagged, Wire, LAST,
    MORE,
};
use super::Outcome;

cases! { rsiw_iwarp_rules_immediate:
    immediate_data
    immediate_too_short
    immediate_too_long
    immediate_in_two_segments
    immediate_in_two_segments_of_wrong_length
    immediate_in_single_bytes
    immediate_without_buffer
    immediate_waits_for_buffer
    immediate_waits_in_vain
    only_the_first_segment_of_an_immediate_waits
    immediate_sequence
    immediate_within_a_write_waits
    immediate_and_one_more_within_a_write
    immediate_does_not_interleave
    immediate_refused
    immediate_with_wrong_crc
    immediate_is_no_rtr
    immediate_of_verbs
}

const DATA: [u8; 8] = [0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8];

fn event(data: [u8; 8], solicited: bool) -> Option<Event> {
    let data = Immediate(data);
    Some(Event::Immediate { data, solicited })
}

fn taken(last: bool) -> Option<Placement> {
    Some(Placement {
        target: Target::Immediate,
        len: 0,
        first: true,
        last,
    })
}

//= 7306-6.1-2, 7306-6.2-1, 7306-6.3-3
/// s6.2: eight bytes. s6.3: the message "MUST consume one Untagged Buffer"; nothing is placed in
/// it.
pub(crate) fn immediate_data() -> Outcome {
    for (opcode, solicited) in [(op::IMMEDIATE, false), (op::IMMEDIATE_SE, true)] {
        let mut probe = Probe::new();
        let stream = fpdu(&untagged(LAST, opcode, 0, 1, 0, &DATA));
        check!(verdict(&stream, &mut probe).is_ok());
        check_eq!(probe.event, event(DATA, solicited));
        check_eq!(probe.placement, taken(true));
        check_eq!((probe.begun, probe.placed, probe.ended), (1, 0, 0));
        check_eq!(probe.delivered, 1);
    }
    Ok(())
}

//= 7306-6.1-3, 7306-6.3-8
/// s6.3: "The Remote Peer MUST check that Immediate Data and Immediate Data with SE Messages
/// include exactly 8 bytes of data".
pub(crate) fn immediate_too_short() -> Outcome {
    for opcode in [op::IMMEDIATE, op::IMMEDIATE_SE] {
        for len in 0..8 {
            let stream = fpdu(&untagged(LAST, opcode, 0, 1, 0, &DATA[..len]));
            let mut probe = Probe::new();
            let got = code(&stream, &mut probe);
            check_eq!(got, Some(TermCode::OPERATION_UNSPECIFIED));
            check_eq!((probe.begun, probe.delivered), (1, 0));
        }
    }
    Ok(())
}

//= 7306-6.1-3, 7306-6.3-8
/// The same for more. No receive buffer is taken, as the header shows the length.
pub(crate) fn immediate_too_long() -> Outcome {
    for opcode in [op::IMMEDIATE, op::IMMEDIATE_SE] {
        for ddp in [LAST, MORE] {
            for len in [9, 10, 12, 16, 200] {
                let body = Wire::new().fill(1, len);
                let stream = fpdu(&untagged(ddp, opcode, 0, 1, 0, body.get()));
                let mut probe = Probe::new();
                check_eq!(code(&stream, &mut probe), Some(TermCode::MESSAGE_TOO_LONG));
                check_eq!((probe.begun, probe.delivered), (0, 0));
            }
        }
    }
    Ok(())
}

/// Immediate Data in two segments, of `front` and `back` bytes.
fn two_segments(front: usize, back: usize) -> Wire {
    let body = Wire::new().bytes(&DATA).fill(0xee, 8);
    let (front, rest) = body.get().split_at(front);
    let segment = |ddp, mo, part| fpdu(&untagged(ddp, op::IMMEDIATE, 0, 1, mo, part));
    let back = rest.get(..back).unwrap_or_default();
    segment(MORE, 0, front).bytes(segment(LAST, front.len() as u32, back).get())
}

//= 7306-6.3-3
/// DDP allows any segmentation. The message takes one receive buffer.
pub(crate) fn immediate_in_two_segments() -> Outcome {
    for front in 0..=8 {
        let mut probe = Probe::new();
        check!(verdict(&two_segments(front, 8 - front), &mut probe).is_ok());
        check_eq!(probe.event, event(DATA, false));
        check_eq!(probe.placement, taken(false));
        check_eq!((probe.begun, probe.ended, probe.delivered), (1, 0, 1));
    }
    Ok(())
}

//= 7306-6.3-8
/// The length is that of all segments.
pub(crate) fn immediate_in_two_segments_of_wrong_length() -> Outcome {
    for (front, back, expected) in [
        (3, 4, TermCode::OPERATION_UNSPECIFIED),
        (0, 0, TermCode::OPERATION_UNSPECIFIED),
        (3, 6, TermCode::MESSAGE_TOO_LONG),
        (8, 1, TermCode::MESSAGE_TOO_LONG),
    ] {
        let mut probe = Probe::new();
        check_eq!(code(&two_segments(front, back), &mut probe), Some(expected));
        check_eq!((probe.begun, probe.delivered), (1, 0));
    }
    Ok(())
}

/// TCP may cut it anywhere.
pub(crate) fn immediate_in_single_bytes() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    for byte in two_segments(3, 5).get() {
        check_eq!(probe.delivered, 0);
        check!(receive(&mut rx, &[*byte], &mut probe).is_ok());
    }
    check_eq!(probe.event, event(DATA, false));
    check!(rx.at_boundary() && !rx.mid_message());
    check_eq!(rx.fpdus(), 2);
    Ok(())
}

//= 7306-6.1-3, 7306-6.3-3
/// RFC 5041 s7.1: "The QN and MSN have an associated buffer". It counts before the length.
pub(crate) fn immediate_without_buffer() -> Outcome {
    for data in [&DATA[..], &DATA[..3]] {
        let mut probe = Probe::refusing(Call::Begin, Refusal::NoBuffer);
        let stream = immediate(1, data);
        check_eq!(code(&stream, &mut probe), Some(TermCode::NO_BUFFER));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

/// Bytes of ULPDU Length and untagged DDP header.
const HEADER: usize = 20;

/// Immediate Data waits for a buffer that may still be posted, as a Send does.
pub(crate) fn immediate_waits_for_buffer() -> Outcome {
    let stream = immediate(1, &DATA);
    let mut probe = Probe::refusing(Call::Begin, Refusal::Wait);
    let mut rx = receiver();
    check_eq!(receive(&mut rx, stream.get(), &mut probe), Ok(HEADER));
    for _ in 0..3 {
        check_eq!(receive(&mut rx, &stream.get()[HEADER..], &mut probe), Ok(0));
        check_eq!(receive(&mut rx, &[], &mut probe), Ok(0));
    }
    check!(!rx.at_boundary());
    check_eq!((probe.begun, probe.delivered), (0, 0));

    probe.refuse = None;
    let rest = stream.bytes(immediate(2, &[7; 8]).get());
    let rest = &rest.get()[HEADER..];
    check_eq!(receive(&mut rx, rest, &mut probe), Ok(rest.len()));
    check_eq!((probe.begun, probe.delivered), (2, 2));
    check_eq!(probe.event, event([7; 8], false));
    check!(rx.at_boundary());
    Ok(())
}

/// The wait ends without a buffer. A CRC error takes precedence over that.
pub(crate) fn immediate_waits_in_vain() -> Outcome {
    for (bit, expected) in [(None, TermCode::NO_BUFFER), (Some(1), TermCode::MPA_CRC)] {
        let mut stream = immediate(1, &DATA);
        if let Some(bit) = bit {
            stream = stream.clone().flip(stream.len() - 1, bit);
        }
        let mut probe = Probe::refusing(Call::Begin, Refusal::Wait);
        let mut rx = receiver();
        check_eq!(receive(&mut rx, stream.get(), &mut probe), Ok(HEADER));
        probe.refuse = Some((Call::Begin, Refusal::NoBuffer));
        let fault = receive(&mut rx, &stream.get()[HEADER..], &mut probe).err();
        check_eq!(fault.and_then(|f| f.term()), Some(expected));
        check_eq!((probe.begun, probe.delivered), (0, 0));
    }
    Ok(())
}

/// The second segment asks for no buffer.
pub(crate) fn only_the_first_segment_of_an_immediate_waits() -> Outcome {
    let stream = two_segments(4, 4);
    let (first, second) = stream.get().split_at(stream.len() / 2);
    let mut probe = Probe::new();
    let mut rx = receiver();
    check!(receive(&mut rx, first, &mut probe).is_ok());
    probe.refuse = Some((Call::Begin, Refusal::Wait));
    check_eq!(receive(&mut rx, second, &mut probe), Ok(second.len()));
    check_eq!(probe.event, event(DATA, false));
    Ok(())
}

//= 7306-6.3-4, 7306-6.4-1, 7306-8.2-2
/// s6.3: Queue Number zero, hence the MSNs of the Sends, "in the order they were sent".
pub(crate) fn immediate_sequence() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    for (segment, delivered) in [
        (send(1, &[1]), 1),
        (immediate(2, &DATA), 2),
        (immediate(3, &DATA), 3),
        (read_request(1, &read_header(1, 2, 3, 4, 5)), 4),
        (send(4, &[2]), 5),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    for msn in [0, 2, u32::MAX] {
        let got = code(&immediate(msn, &DATA), &mut Probe::new());
        check_eq!(got, Some(TermCode::MSN_RANGE));
    }
    for (first, second) in [
        (immediate(1, &DATA), send(1, &[])),
        (immediate(1, &DATA), send(3, &[])),
        (send(1, &[]), immediate(1, &DATA)),
    ] {
        let got = code(&first.bytes(second.get()), &mut Probe::new());
        check_eq!(got, Some(TermCode::MSN_RANGE));
    }
    let stream = fpdu(&untagged(LAST, op::IMMEDIATE, 0, 1, 8, &DATA));
    check_eq!(code(&stream, &mut Probe::new()), Some(TermCode::INVALID_MO));
    Ok(())
}

//= 7306-6.3-4, 7306-6.4-1
/// s7: "Immediate Data is Completed after RDMA Write is Placed and Delivered".
pub(crate) fn immediate_within_a_write_waits() -> Outcome {
    let [first, last] = halves();
    for message in [immediate(1, &DATA), two_segments(5, 3)] {
        let mut rx = receiver();
        let mut probe = Probe::new();
        check!(receive(&mut rx, first.get(), &mut probe).is_ok());
        check!(receive(&mut rx, message.get(), &mut probe).is_ok());
        check_eq!((probe.begun, probe.delivered), (2, 0));
        check!(rx.mid_message());
        check!(receive(&mut rx, last.get(), &mut probe).is_ok());
        check_eq!(probe.event, event(DATA, false));
        check_eq!(probe.delivered, 2);
        check!(!rx.mid_message());
    }
    // Its length is checked when it is delivered, and the Terminate has its header.
    let short = immediate(1, &DATA[..7]);
    let mut rx = receiver();
    let mut probe = Probe::new();
    let held = first.bytes(short.get());
    check!(receive(&mut rx, held.get(), &mut probe).is_ok());
    let fault = receive(&mut rx, last.get(), &mut probe).err();
    check_eq!(probe.event, Some(Event::Write { len: 2 }));
    check!(fault.is_some());
    let got = fault.and_then(|f| rx.terminate_for(&f));
    check_eq!(got, terminate_for(&short, &mut Probe::new()));
    Ok(())
}

/// One message may wait for the Write, another one not. A Terminate ends all.
pub(crate) fn immediate_and_one_more_within_a_write() -> Outcome {
    let [first, _] = halves();
    for (held, second) in [
        (immediate(1, &DATA), immediate(2, &DATA)),
        (immediate(1, &DATA), send(2, &[1])),
        (send(1, &[1]), immediate(2, &DATA)),
    ] {
        let stream = first.clone().bytes(held.get()).bytes(second.get());
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!((probe.begun, probe.delivered), (2, 0));
    }
    let stream = first.bytes(immediate(1, &DATA).get());
    let stream = stream.bytes(terminate(&Wire::new().u32(0)).get());
    let mut probe = Probe::new();
    check!(verdict(&stream, &mut probe).is_ok());
    check!(matches!(probe.event, Some(Event::Terminate(_))));
    Ok(())
}

//= 7306-6.4-1
/// RFC 5041 s5.3: two untagged messages do not interleave.
pub(crate) fn immediate_does_not_interleave() -> Outcome {
    let segment = |opcode, mo, part: &[u8]| fpdu(&untagged(LAST, opcode, 0, 1, mo, part));
    let open = |opcode| fpdu(&untagged(MORE, opcode, 0, 1, 0, &[1, 2]));
    for (open, intruder) in [
        (open(op::SEND), segment(op::IMMEDIATE, 2, &DATA)),
        (open(op::IMMEDIATE), segment(op::SEND, 2, &[1])),
        (
            open(op::IMMEDIATE),
            segment(op::IMMEDIATE_SE, 2, &DATA[..6]),
        ),
    ] {
        let stream = open.bytes(intruder.get());
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!((probe.begun, probe.delivered), (1, 0));
    }
    Ok(())
}

/// A handler that refuses it for a reason of its own is at fault.
pub(crate) fn immediate_refused() -> Outcome {
    for call in [Call::Begin, Call::Deliver] {
        let mut probe = Probe::refusing(call, Refusal::Local);
        let fault = verdict(&immediate(1, &DATA), &mut probe).err();
        check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Local));
    }
    Ok(())
}

/// Nothing is delivered before the CRC is verified, and no other fault told.
pub(crate) fn immediate_with_wrong_crc() -> Outcome {
    for data in [&DATA[..], &DATA[..7], &[0; 9]] {
        let good = immediate(1, data);
        for at in [HEADER, good.len() - 1] {
            for cut in [0, HEADER, HEADER + 3] {
                let bad = good.clone().flip(at, 3);
                let (front, back) = bad.get().split_at(cut);
                let mut rx = receiver();
                let mut probe = Probe::new();
                check!(receive(&mut rx, front, &mut probe).is_ok());
                let fault = receive(&mut rx, back, &mut probe).err();
                check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Crc));
                check_eq!(probe.delivered, 0);
            }
        }
    }
    Ok(())
}

/// RFC 6581 s9.2: only a zero-length Send, Write or Read is an RTR.
pub(crate) fn immediate_is_no_rtr() -> Outcome {
    let mut rx = receiver();
    rx.expect_rtr_send();
    let mut probe = Probe::new();
    check!(receive(&mut rx, immediate(1, &DATA).get(), &mut probe).is_ok());
    check_eq!(probe.event, event(DATA, false));
    check_eq!(probe.begun, 1);
    check!(receive(&mut rx, send(2, &[]).get(), &mut probe).is_ok());
    check!(matches!(probe.event, Some(Event::Recv { len: 0, .. })));
    Ok(())
}

//= 7306-6.1-2
/// The 32 bits of verbs are in both halves. The second half counts if the first is zero.
pub(crate) fn immediate_of_verbs() -> Outcome {
    for bits in [[1, 2, 3, 4], [0, 0, 0, 9], [0x80, 0, 0, 0], [0; 4]] {
        let [a, b, c, d] = bits;
        let data = Immediate::of_verbs(bits);
        check_eq!(data, Immediate([a, b, c, d, a, b, c, d]));
        check_eq!(data.to_verbs(), bits);
        check_eq!(Immediate([a, b, c, d, 0, 0, 0, 0]).to_verbs(), bits);
        check_eq!(Immediate([0, 0, 0, 0, a, b, c, d]).to_verbs(), bits);
    }
    check_eq!(Immediate(DATA).to_verbs(), [0xd1, 0xd2, 0xd3, 0xd4]);
    Ok(())
}
