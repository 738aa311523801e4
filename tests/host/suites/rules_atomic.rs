// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations: Requests, Responses, and the Terminates for both (RFC 7306 s5, s8).

use super::probe::extended::{code, receiver, terminate_for, verdict};
use super::probe::{receive, Call, Probe};
use super::wire::{
    atomic_header, atomic_request, fpdu, halves, op, read_header, read_request, send, untagged,
    Wire, LAST, MORE,
};
use super::Outcome;
use iwarp::rdmap::{AtomicOp, AtomicRequest};
use iwarp::rx::{Event, FaultKind, Refusal};
use iwarp::tx::{Message, Segmenter};
use iwarp::{Msn, Stag, TaggedOffset, TermCode, Terminate};

cases! { rsiw_iwarp_rules_atomic:
    atomic_request_fields
    atomic_request_ignores_the_rest
    atomic_request_unknown_code
    atomic_request_too_short
    atomic_request_too_long
    atomic_request_in_two_segments
    atomic_request_in_single_bytes
    atomic_request_sequence
    atomic_request_offset
    atomic_request_refused
    atomic_request_within_a_write_waits
    atomic_request_refused_after_a_wait
    atomic_request_does_not_interleave
    atomic_request_with_wrong_crc
    atomic_terminate_has_no_rdma_header
    atomic_terminate_of_a_request_under_way
    fetch_add
    cmp_swap
}

const STAG: u32 = 0xa1b2_c3d4;
const TO: u64 = 0x0102_0304_0506_0708;
pub(super) const A: u64 = 0x1112_1314_1516_1718;
pub(super) const B: u64 = 0x2122_2324_2526_2728;
pub(super) const C: u64 = 0x3132_3334_3536_3738;
const D: u64 = 0x4142_4344_4546_4748;

pub(super) fn asked(id: u32, op: AtomicOp) -> Option<Event> {
    Some(Event::AtomicRequest(AtomicRequest {
        id,
        stag: Stag(STAG),
        to: TaggedOffset(TO),
        op,
    }))
}

pub(super) const CMP_SWAP: AtomicOp = AtomicOp::CmpSwap {
    swap: A,
    swap_mask: B,
    compare: C,
    compare_mask: D,
};

/// The header of a CmpSwap with this Request Identifier.
pub(super) fn cmp_swap_header(id: u32) -> Wire {
    atomic_header(2, id, STAG, TO, [A, B, C, D])
}

//= 7306-5.2.1-2
/// s5.2.1 Figures 4 and 5.
pub(crate) fn atomic_request_fields() -> Outcome {
    let add = atomic_header(0, 7, STAG, TO, [A, B, 0, u64::MAX]);
    for (header, op) in [
        (add, AtomicOp::FetchAdd { add: A, mask: B }),
        (cmp_swap_header(7), CMP_SWAP),
    ] {
        let mut probe = Probe::new();
        check!(verdict(&atomic_request(1, &header), &mut probe).is_ok());
        check_eq!(probe.event, asked(7, op));
        check_eq!((probe.begun, probe.placed, probe.delivered), (0, 0, 1));
    }
    Ok(())
}

//= 7306-5.2.1-1, 7306-5.2.1-5, 7306-5.2.1-6
/// s5.2.1: the reserved bits are "ignored on receive"; of a FetchAdd, Compare Data and Mask are
/// "ignored by the receiver".
pub(crate) fn atomic_request_ignores_the_rest() -> Outcome {
    let mut probe = Probe::new();
    let header = atomic_header(0xffff_fff0, 7, STAG, TO, [A, B, C, D]);
    check!(verdict(&atomic_request(1, &header), &mut probe).is_ok());
    check_eq!(
        probe.event,
        asked(7, AtomicOp::FetchAdd { add: A, mask: B })
    );
    let header = atomic_header(0xffff_fff2, 7, STAG, TO, [A, B, C, D]);
    check!(verdict(&atomic_request(1, &header), &mut probe).is_ok());
    check_eq!(probe.event, asked(7, CMP_SWAP));
    Ok(())
}

//= 7306-5.2.1-12
/// s5.2.1 rule 4: "an error MUST be surfaced in response to [...] an Atomic Operation Code that the
/// RNIC does not support".
pub(crate) fn atomic_request_unknown_code() -> Outcome {
    for unknown in [1].into_iter().chain(3..16) {
        let header = atomic_header(unknown, 7, STAG, TO, [A, B, C, D]);
        let mut probe = Probe::new();
        let got = code(&atomic_request(1, &header), &mut probe);
        check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 7306-4-1
/// s4: "The RDMAP header for Atomic Request messages is 52 bytes long".
pub(crate) fn atomic_request_too_short() -> Outcome {
    for len in 0..52 {
        let short = Wire::new().bytes(&cmp_swap_header(7).get()[..len]);
        let mut probe = Probe::new();
        let got = code(&atomic_request(1, &short), &mut probe);
        check_eq!(got, Some(TermCode::OPERATION_UNSPECIFIED));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 7306-4-1
/// The same for more than the untagged buffer of a request has room for.
pub(crate) fn atomic_request_too_long() -> Outcome {
    for more in [1, 2, 4, 100] {
        let long = cmp_swap_header(7).fill(0, more);
        for ddp in [LAST, MORE] {
            let stream = fpdu(&untagged(ddp, op::ATOMIC_REQUEST, 1, 1, 0, long.get()));
            let mut probe = Probe::new();
            check_eq!(code(&stream, &mut probe), Some(TermCode::MESSAGE_TOO_LONG));
            check_eq!(probe.delivered, 0);
        }
    }
    let stream = two_segments(52, &[0]);
    let got = code(&stream, &mut Probe::new());
    check_eq!(got, Some(TermCode::MESSAGE_TOO_LONG));
    Ok(())
}

/// A CmpSwap in two segments, the first of `front` bytes; `more` follows the header.
fn two_segments(front: usize, more: &[u8]) -> Wire {
    let header = cmp_swap_header(7).bytes(more);
    let (front, back) = header.get().split_at(front);
    let segment = |ddp, mo, part| fpdu(&untagged(ddp, op::ATOMIC_REQUEST, 1, 1, mo, part));
    segment(MORE, 0, front).bytes(segment(LAST, front.len() as u32, back).get())
}

//= 7306-5.4-3
/// DDP allows a request in two segments.
pub(crate) fn atomic_request_in_two_segments() -> Outcome {
    for front in 0..=52 {
        let mut probe = Probe::new();
        check!(verdict(&two_segments(front, &[]), &mut probe).is_ok());
        check_eq!(probe.event, asked(7, CMP_SWAP));
        check_eq!((probe.begun, probe.delivered), (0, 1));
    }
    Ok(())
}

/// TCP may cut it anywhere.
pub(crate) fn atomic_request_in_single_bytes() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    for byte in two_segments(11, &[]).get() {
        check_eq!(probe.delivered, 0);
        check!(receive(&mut rx, &[*byte], &mut probe).is_ok());
    }
    check_eq!(probe.event, asked(7, CMP_SWAP));
    check!(rx.at_boundary() && !rx.mid_message());
    Ok(())
}

//= 7306-5.2-1, 7306-5.2.1-9, 7306-5.2.1-16, 7306-5.4-6, 7306-5.4-8a, 7306-8.2-2
/// s5.2: "Atomic Operation Request messages MUST use the same Queue Number as RDMA Read Requests",
/// hence they share its MSNs. s5.4 rule 8: they are delivered in order.
pub(crate) fn atomic_request_sequence() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    let read = read_header(1, 2, 3, 4, 5);
    for (segment, delivered) in [
        (atomic_request(1, &cmp_swap_header(1)), 1),
        (read_request(2, &read), 2),
        (send(1, &[1]), 3),
        (atomic_request(3, &cmp_swap_header(2)), 4),
        (atomic_request(4, &cmp_swap_header(2)), 5),
        (read_request(5, &read), 6),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    for msn in [0, 2, u32::MAX] {
        let got = code(&atomic_request(msn, &cmp_swap_header(1)), &mut Probe::new());
        check_eq!(got, Some(TermCode::MSN_RANGE));
    }
    for (first, second) in [
        (
            atomic_request(1, &cmp_swap_header(1)),
            read_request(1, &read),
        ),
        (
            read_request(1, &read),
            atomic_request(1, &cmp_swap_header(1)),
        ),
        (
            read_request(1, &read),
            atomic_request(3, &cmp_swap_header(1)),
        ),
    ] {
        let got = code(&first.bytes(second.get()), &mut Probe::new());
        check_eq!(got, Some(TermCode::MSN_RANGE));
    }
    Ok(())
}

//= 7306-8.2-2
/// RFC 5041 s4.3: the MO of the first segment is zero.
pub(crate) fn atomic_request_offset() -> Outcome {
    for mo in [1, 4, u32::MAX] {
        let header = cmp_swap_header(1);
        let stream = fpdu(&untagged(LAST, op::ATOMIC_REQUEST, 1, 1, mo, header.get()));
        check_eq!(code(&stream, &mut Probe::new()), Some(TermCode::INVALID_MO));
    }
    Ok(())
}

/// The errors of the target, of which RFC 7306 s8.2 names that of a misaligned one; the others are
/// those of a Read Request (RFC 5040 s4.8 Figure 9). More requests than agreed have no buffer.
const REFUSALS: [(Refusal, TermCode); 9] = [
    (Refusal::InvalidStag, TermCode::READ_INVALID_STAG),
    (Refusal::Bounds, TermCode::READ_BOUNDS),
    (Refusal::Access, TermCode::READ_ACCESS),
    (Refusal::NotAssociated, TermCode::READ_NOT_ASSOCIATED),
    (Refusal::Wrap, TermCode::READ_TO_WRAP),
    (Refusal::Misaligned, TermCode::CATASTROPHIC_STREAM),
    (Refusal::ReadQueueFull, TermCode::NO_BUFFER),
    (Refusal::NoBuffer, TermCode::NO_BUFFER),
    (Refusal::Local, TermCode::LOCAL_CATASTROPHIC),
];

//= 7306-5.1.1-1, 7306-5.1.1-2a, 7306-5.1.2-2, 7306-5.1.2-3c, 7306-5.2.1-4, 7306-8.2-5,
//= 7306-8.2-7, 7306-9-1
/// s8.2: what the handler finds wrong with the target.
pub(crate) fn atomic_request_refused() -> Outcome {
    for (why, expected) in REFUSALS {
        let mut probe = Probe::refusing(Call::Deliver, why);
        let got = code(&atomic_request(1, &cmp_swap_header(7)), &mut probe);
        check_eq!(got, Some(expected));
    }
    // No other message has a target that could be misaligned.
    for message in [read_request(1, &read_header(1, 2, 3, 4, 5)), send(1, &[])] {
        let mut probe = Probe::refusing(Call::Deliver, Refusal::Misaligned);
        let fault = verdict(&message, &mut probe).err();
        check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Local));
    }
    Ok(())
}

//= 7306-5.4-3, 7306-5.4-5
/// s5.4 rule 5: it is processed only when "all previous RDMA Messages on that DDP Stream have been
/// Delivered".
pub(crate) fn atomic_request_within_a_write_waits() -> Outcome {
    let [first, last] = halves();
    let mut rx = receiver();
    let mut probe = Probe::new();
    for segment in [&first, &atomic_request(1, &cmp_swap_header(7))] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
    }
    check_eq!(probe.delivered, 0);
    check!(receive(&mut rx, last.get(), &mut probe).is_ok());
    check_eq!(probe.delivered, 2);
    check_eq!(probe.event, asked(7, CMP_SWAP));
    // Another message cannot wait as well.
    let stream = first.bytes(atomic_request(1, &cmp_swap_header(7)).get());
    for second in [
        atomic_request(2, &cmp_swap_header(8)),
        read_request(2, &read_header(1, 2, 3, 4, 5)),
        send(1, &[]),
    ] {
        let stream = stream.clone().bytes(second.get());
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

/// If it has waited, the Terminate has its header all the same.
pub(crate) fn atomic_request_refused_after_a_wait() -> Outcome {
    let [first, last] = halves();
    let unknown = atomic_header(1, 7, STAG, TO, [A, B, C, D]);
    for (header, why) in [
        (cmp_swap_header(7), Some(Refusal::Misaligned)),
        (cmp_swap_header(7), Some(Refusal::Access)),
        (unknown, None),
    ] {
        let message = atomic_request(1, &header);
        let refuse = why.map(|why| (Call::Deliver, why));
        let mut probe = Probe::new();
        probe.refuse = refuse;
        let at_once = terminate_for(&message, &mut probe);
        check!(at_once.is_some());
        let mut rx = receiver();
        let mut probe = Probe::new();
        for segment in [&first, &message] {
            check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        }
        (probe.refuse, probe.refuse_from) = (refuse, 1);
        let fault = receive(&mut rx, last.get(), &mut probe).err();
        check_eq!(fault.and_then(|f| rx.terminate_for(&f)), at_once);
        check_eq!(probe.delivered, 1);
    }
    Ok(())
}

/// RFC 5041 s5.3: two untagged messages do not interleave.
pub(crate) fn atomic_request_does_not_interleave() -> Outcome {
    let header = cmp_swap_header(7);
    let read = read_header(1, 2, 3, 4, 5);
    let segment =
        |ddp, control, qn, mo, part: &[u8]| fpdu(&untagged(ddp, control, qn, 1, mo, part));
    for (open, intruder) in [
        (
            segment(MORE, op::SEND, 0, 0, &[1]),
            segment(LAST, op::ATOMIC_REQUEST, 1, 0, header.get()),
        ),
        (
            segment(MORE, op::ATOMIC_REQUEST, 1, 0, &header.get()[..4]),
            segment(LAST, op::READ_REQUEST, 1, 4, &read.get()[4..]),
        ),
        (
            segment(MORE, op::READ_REQUEST, 1, 0, &read.get()[..4]),
            segment(LAST, op::ATOMIC_REQUEST, 1, 4, &header.get()[4..]),
        ),
    ] {
        let mut probe = Probe::new();
        let got = code(&open.bytes(intruder.get()), &mut probe);
        check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 7306-5.4-3
/// Nothing is executed before the CRC is verified, and no other fault told.
pub(crate) fn atomic_request_with_wrong_crc() -> Outcome {
    for code in 0..3 {
        let good = atomic_request(1, &atomic_header(code, 7, STAG, TO, [A, B, C, D]));
        for at in [25, 40, good.len() - 1] {
            let mut probe = Probe::new();
            let fault = verdict(&good.clone().flip(at, 3), &mut probe).err();
            check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Crc));
            check_eq!(probe.delivered, 0);
        }
    }
    Ok(())
}

/// The Terminate Header that the engine sends.
fn encoded(term: Option<Terminate>) -> Wire {
    let segment = term.and_then(|term| Segmenter::new(Message::Terminate { term }, 0).next(128));
    let header = segment.as_ref().map(|segment| segment.header());
    Wire::new().bytes(header.and_then(|h| h.get(20..)).unwrap_or_default())
}

//= 7306-5.1.1-3, 7306-5.1.2-3d, 7306-8.1-1, 7306-8.1-3, 7306-8.2-7
/// s8.1 case 2: "the Error Type, Error Code, and Terminated DDP Header fields are included in the
/// Terminate Message, but the Terminated RDMA Header field is set to zero".
pub(crate) fn atomic_terminate_has_no_rdma_header() -> Outcome {
    let request = untagged(LAST, op::ATOMIC_REQUEST, 1, 1, 0, cmp_swap_header(7).get());
    for (why, code) in [
        (Refusal::InvalidStag, [0x01, 0x00]),
        (Refusal::Bounds, [0x01, 0x01]),
        (Refusal::Access, [0x01, 0x02]),
        (Refusal::NotAssociated, [0x01, 0x03]),
        (Refusal::Wrap, [0x01, 0x04]),
        (Refusal::Misaligned, [0x02, 0x07]),
        (Refusal::ReadQueueFull, [0x12, 0x02]),
    ] {
        let mut probe = Probe::refusing(Call::Deliver, why);
        let got = encoded(terminate_for(&fpdu(&request), &mut probe));
        let expected = Wire::new()
            .bytes(&code)
            .bytes(&[0xc0, 0])
            .u16(18 + 52)
            .bytes(&request.get()[..18]);
        check_eq!(got.get(), expected.get());
    }
    let response = untagged(LAST, op::ATOMIC_RESPONSE, 3, 1, 0, &[0; 12]);
    let mut probe = Probe::refusing(Call::Deliver, Refusal::Unexpected);
    let got = encoded(terminate_for(&fpdu(&response), &mut probe));
    let expected = Wire::new()
        .bytes(&[0x02, 0x06, 0xc0, 0])
        .u16(18 + 12)
        .bytes(&response.get()[..18]);
    check_eq!(got.get(), expected.get());
    Ok(())
}

//= 7306-8.1-1, 7306-8.1-3
/// A request that fails when it is executed has the Terminate of one that fails on receipt.
pub(crate) fn atomic_terminate_of_a_request_under_way() -> Outcome {
    let mut probe = Probe::refusing(Call::Deliver, Refusal::Misaligned);
    let on_receipt = terminate_for(&atomic_request(1, &cmp_swap_header(7)), &mut probe);
    let later = Terminate::for_atomic_request(TermCode::CATASTROPHIC_STREAM, Msn(1));
    check_eq!(encoded(Some(later)).get(), encoded(on_receipt).get());
    let later = Terminate::for_atomic_request(TermCode::READ_INVALID_STAG, Msn(0x0102_0304));
    let expected = Wire::new()
        .bytes(&[0x01, 0x00, 0xc0, 0])
        .u16(18 + 52)
        .bytes(untagged(LAST, op::ATOMIC_REQUEST, 1, 0x0102_0304, 0, &[]).get());
    check_eq!(encoded(Some(later)).get(), expected.get());
    let local = Terminate::for_atomic_request(TermCode::LOCAL_CATASTROPHIC, Msn(1));
    check_eq!(encoded(Some(local)).get(), &[0, 0, 0, 0]);
    Ok(())
}

//= 7306-1.1-2, 7306-5-3, 7306-5.1.1-4, 7306-5.2.1-2
/// s5.1.1: "for each field, a bit is set at the most significant bit position".
pub(crate) fn fetch_add() -> Outcome {
    const BYTES: u64 = 0x8080_8080_8080_8080;
    for (old, add, mask, new) in [
        (1, 2, 0, 3),
        (u64::MAX, 1, 0, 0),
        (u64::MAX, 1, 1 << 63, 0),
        // No carry leaves a field.
        (0x00ff, 0x0001, BYTES, 0x0000),
        (0x00ff_01ff, 0x0001_ff01, BYTES, 0),
        (0xffff_ffff, 1, 1 << 31, 0),
        (0xffff_ffff, 1, 1 << 32, 0x1_0000_0000),
        (0x1_ffff_ffff, 1, 1 << 32, 0),
        // Fields of one bit each.
        (0b1100, 0b1010, u64::MAX, 0b0110),
    ] {
        check_eq!(AtomicOp::FetchAdd { add, mask }.apply(old), new);
    }
    Ok(())
}

//= 7306-1.1-2, 7306-5-3, 7306-5.1.2-1, 7306-5.2.1-2
/// s5.1.2.
pub(crate) fn cmp_swap() -> Outcome {
    for (old, swap, swap_mask, compare, compare_mask, new) in [
        (A, B, u64::MAX, A, u64::MAX, B),
        (A, B, u64::MAX, C, u64::MAX, A),
        (A, B, u64::MAX, A ^ 1, u64::MAX, A),
        (A, B, u64::MAX, A ^ 1, !1, B),
        (A, B, u64::MAX, C, 0, B),
        (0x1234, 0xabcd, 0x00ff, 0x1200, 0xff00, 0x12cd),
        (A, B, 0, A, u64::MAX, A),
    ] {
        let op = AtomicOp::CmpSwap {
            swap,
            swap_mask,
            compare,
            compare_mask,
        };
        check_eq!(op.apply(old), new);
    }
    Ok(())
}
