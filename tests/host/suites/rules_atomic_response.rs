// SPDX-License-Identifier: GPL-2.0

//! Rules for Atomic Responses (RFC 7306).

use super::probe::extended::{code, receiver, terminate_for, verdict};
use super::probe::{receive, Call, Probe};
use super::rules_atomic::{asked, cmp_swap_header, A, B, C, CMP_SWAP};
use super::wire::{
    atomic_request, atomic_response, fpdu, halves, op, read_header, read_request, send, tagged,
    untagged, Wire, LAST, MORE, TAGGED_LAST, TAGGED_MORE,
};
use super::Outcome;
use iwarp::rdmap::AtomicResponse;
use iwarp::rx::{Event, FaultKind, Refusal};
use iwarp::{Stag, TaggedOffset, TermCode};

cases! { rsiw_iwarp_rules_atomic_response:
    atomic_response_fields
    atomic_response_sequence
    atomic_response_offset
    atomic_response_of_wrong_length
    atomic_response_in_two_segments
    atomic_response_within_a_send
    atomic_response_within_a_write
    atomic_response_within_a_read_response
    atomic_response_within_a_request
    atomic_response_while_a_message_is_held
    atomic_response_refused
    atomic_response_with_wrong_crc
}

fn answered(id: u32, value: u64) -> Option<Event> {
    Some(Event::AtomicResponse(AtomicResponse { id, value }))
}

//= 7306-5.2.2-7
/// s5.2.2 Figure 6.
pub(crate) fn atomic_response_fields() -> Outcome {
    let mut probe = Probe::new();
    check!(verdict(&atomic_response(1, 0x0506_0708, A), &mut probe).is_ok());
    check_eq!(probe.event, answered(0x0506_0708, A));
    check_eq!((probe.begun, probe.placed, probe.delivered), (0, 0, 1));
    Ok(())
}

//= 7306-4.1-4, 7306-5-5, 7306-5.2.2-1, 7306-8.2-2
/// s4.1: queue 3 has MSNs of its own.
pub(crate) fn atomic_response_sequence() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    for (segment, delivered) in [
        (send(1, &[1]), 1),
        (atomic_response(1, 5, A), 2),
        (atomic_request(1, &cmp_swap_header(5)), 3),
        (atomic_response(2, 6, B), 4),
        (send(2, &[1]), 5),
        (atomic_response(3, 7, C), 6),
    ] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    for msn in [0, 2, u32::MAX] {
        let mut probe = Probe::new();
        let got = code(&atomic_response(msn, 5, A), &mut probe);
        check_eq!(got, Some(TermCode::MSN_RANGE));
        check_eq!(probe.delivered, 0);
    }
    for msn in [1, 3, 0] {
        let stream = atomic_response(1, 5, A).bytes(atomic_response(msn, 6, A).get());
        let got = code(&stream, &mut Probe::new());
        check_eq!(got, Some(TermCode::MSN_RANGE));
    }
    Ok(())
}

//= 7306-8.2-2
/// RFC 5041 s4.3: its MO is zero.
pub(crate) fn atomic_response_offset() -> Outcome {
    for mo in [1, 12, u32::MAX] {
        let stream = fpdu(&untagged(LAST, op::ATOMIC_RESPONSE, 3, 1, mo, &[0; 12]));
        check_eq!(code(&stream, &mut Probe::new()), Some(TermCode::INVALID_MO));
    }
    Ok(())
}

//= 7306-4-2, 7306-5.2.2-8
/// s5.2.2 rule 7: "when an invalid Atomic Operation Response Message is delivered [...], an error
/// is surfaced".
pub(crate) fn atomic_response_of_wrong_length() -> Outcome {
    for len in (0..12).chain([13, 14, 16, 30, 32, 100]) {
        let body = Wire::new().fill(0, len);
        let stream = fpdu(&untagged(LAST, op::ATOMIC_RESPONSE, 3, 1, 0, body.get()));
        let mut probe = Probe::new();
        let got = code(&stream, &mut probe);
        check_eq!(got, Some(TermCode::OPERATION_UNSPECIFIED));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 7306-5.2.2-8
/// A segment of the smallest MULPDU has room for it, so it must not be cut.
pub(crate) fn atomic_response_in_two_segments() -> Outcome {
    for len in [0, 4, 12] {
        let body = Wire::new().fill(0, len);
        let stream = fpdu(&untagged(MORE, op::ATOMIC_RESPONSE, 3, 1, 0, body.get()));
        let mut probe = Probe::new();
        let got = code(&stream, &mut probe);
        check_eq!(got, Some(TermCode::OPERATION_UNSPECIFIED));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

/// Has a receiver take these segments. Each is followed by the number of messages that are
/// delivered by then.
fn delivers(probe: &mut Probe, segments: &[(&Wire, u32)]) -> Outcome {
    let mut rx = receiver();
    for (segment, delivered) in segments {
        check!(receive(&mut rx, segment.get(), probe).is_ok());
        check_eq!(probe.delivered, *delivered);
    }
    check!(rx.at_boundary() && !rx.mid_message());
    Ok(())
}

/// RFC 5040 s5.5 rule 2: there is no order "between operations that are generated from the two
/// ends", so the answer comes at any boundary of segments.
pub(crate) fn atomic_response_within_a_send() -> Outcome {
    let mut probe = Probe::new();
    let segment = |ddp, mo, part: &[u8]| fpdu(&untagged(ddp, op::SEND, 0, 1, mo, part));
    delivers(
        &mut probe,
        &[
            (&segment(MORE, 0, &[1, 2]), 0),
            (&atomic_response(1, 5, A), 1),
            (&segment(MORE, 2, &[3, 4]), 1),
            (&atomic_response(2, 6, B), 2),
            (&segment(LAST, 4, &[5]), 3),
        ],
    )?;
    check_eq!(probe.data.get(), &[1, 2, 3, 4, 5]);
    check!(matches!(probe.event, Some(Event::Recv { len: 5, .. })));
    Ok(())
}

/// The same for an RDMA Write.
pub(crate) fn atomic_response_within_a_write() -> Outcome {
    let mut probe = Probe::new();
    let [first, last] = halves();
    let response = atomic_response(1, 5, A);
    delivers(&mut probe, &[(&first, 0), (&response, 1), (&last, 2)])?;
    check_eq!(probe.data.get(), &[3, 4]);
    check_eq!(probe.event, Some(Event::Write { len: 2 }));
    // It makes nothing else wait for the Write, or not wait.
    let mut probe = Probe::new();
    let message = send(1, &[9]);
    let segments = [(&first, 0), (&response, 1), (&message, 1), (&last, 3)];
    delivers(&mut probe, &segments)
}

/// The same for a Read Response.
pub(crate) fn atomic_response_within_a_read_response() -> Outcome {
    let mut probe = Probe::reading(7, 0, 2);
    let part = |ddp, to, byte| fpdu(&tagged(ddp, op::READ_RESPONSE, 7, to, &[byte]));
    delivers(
        &mut probe,
        &[
            (&part(TAGGED_MORE, 0, 1), 0),
            (&atomic_response(1, 5, A), 1),
            (&part(TAGGED_LAST, 1, 2), 2),
        ],
    )?;
    check_eq!(probe.data.get(), &[1, 2]);
    check_eq!(probe.event, Some(Event::ReadResponse { len: 2 }));
    Ok(())
}

/// Bytes of a request that were gathered stay what they are.
pub(crate) fn atomic_response_within_a_request() -> Outcome {
    let header = cmp_swap_header(7);
    let segment = |ddp, mo, part| fpdu(&untagged(ddp, op::ATOMIC_REQUEST, 1, 1, mo, part));
    let first = segment(MORE, 0, &header.get()[..20]);
    let last = segment(LAST, 20, &header.get()[20..]);
    let mut probe = Probe::new();
    let response = atomic_response(1, 5, A);
    delivers(&mut probe, &[(&first, 0), (&response, 1), (&last, 2)])?;
    check_eq!(probe.event, asked(7, CMP_SWAP));
    Ok(())
}

/// The message that waits for an RDMA Write stays what it is; the answer does not wait.
pub(crate) fn atomic_response_while_a_message_is_held() -> Outcome {
    let [first, last] = halves();
    let response = atomic_response(1, 5, A);
    for (message, expected) in [
        (atomic_request(1, &cmp_swap_header(7)), asked(7, CMP_SWAP)),
        (
            read_request(1, &read_header(1, 2, 3, 4, 5)),
            Some(Event::ReadRequest(iwarp::ReadRequest {
                sink_stag: Stag(1),
                sink_to: TaggedOffset(2),
                len: 3,
                src_stag: Stag(4),
                src_to: TaggedOffset(5),
            })),
        ),
    ] {
        let mut probe = Probe::new();
        let segments = [(&first, 0), (&message, 0), (&response, 1), (&last, 3)];
        delivers(&mut probe, &segments)?;
        check_eq!(probe.event, expected);
        // A wrong answer has a Terminate with its own header.
        let mut rx = receiver();
        let mut probe = Probe::new();
        for segment in [&first, &message] {
            check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        }
        probe.refuse = Some((Call::Deliver, Refusal::Unexpected));
        let fault = receive(&mut rx, response.get(), &mut probe).err();
        let got = fault.and_then(|f| rx.terminate_for(&f));
        check!(got.is_some());
        check_eq!(got, terminate_for(&response, &mut probe));
    }
    Ok(())
}

//= 7306-5-5, 7306-5.2.2-8
/// An answer that nobody waits for, or to another request.
pub(crate) fn atomic_response_refused() -> Outcome {
    for (why, expected) in [
        (Refusal::Unexpected, TermCode::UNEXPECTED_OPCODE),
        (Refusal::Local, TermCode::LOCAL_CATASTROPHIC),
    ] {
        let mut probe = Probe::refusing(Call::Deliver, why);
        let got = code(&atomic_response(1, 5, A), &mut probe);
        check_eq!(got, Some(expected));
    }
    Ok(())
}

//= 7306-5.4-7
/// Nothing is delivered before the CRC is verified.
pub(crate) fn atomic_response_with_wrong_crc() -> Outcome {
    let good = atomic_response(1, 5, A);
    for at in [20, 31, good.len() - 1] {
        let mut probe = Probe::new();
        let fault = verdict(&good.clone().flip(at, 3), &mut probe).err();
        check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Crc));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}
