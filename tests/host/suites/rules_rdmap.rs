// SPDX-License-Identifier: GPL-2.0

//! RDMAP rules: opcodes, reads, invalidation, Terminate, RTR (RFC 5040, RFC 6581 s9.2).

use iwarp::rx::{Event, FaultKind, Placement, Refusal, Target};
use iwarp::{ReadRequest, Stag, TaggedOffset, TermCode};

use super::probe::{code, receive, receiver, verdict, Call, Probe};
use super::wire::{
    fpdu, op, read_header, read_request, send, tagged, terminate, untagged, untagged_inv, write,
    Wire, LAST, MORE, TAGGED_LAST, TAGGED_MORE,
};
use super::Outcome;

cases! { rsiw_iwarp_rules_rdmap:
    send_kinds
    send_opcode_changes
    invalidate_refused
    version
    reserved_opcodes
    opcode_in_tagged_segment
    opcode_on_wrong_queue
    read_request_fields
    read_request_in_two_segments
    read_request_too_long
    read_request_too_short
    read_request_to_wrap
    read_request_zero_length_not_validated
    read_request_refused
    read_queue_full
    read_response
    read_response_several_segments
    read_response_zero_length
    read_response_unexpected
    read_response_other_stag
    read_response_other_to
    read_response_too_long
    read_response_too_short
    terminate_closes
    terminate_within_message
    terminate_too_short
    terminate_promising_too_much
    rtr_send
    rtr_send_only_first
    rtr_write_and_read
}

//= 5040-4.1-3, 5040-5.3-10, 5041-4.3-3, 5041-4.3-5, 5041-5.4-3
/// s4.1 Figure 4: four opcodes for Sends.
pub(crate) fn send_kinds() -> Outcome {
    for (control, solicited, invalidate) in [
        (op::SEND, false, None),
        (op::SEND_INV, false, Some(Stag(0x1234_5678))),
        (op::SEND_SE, true, None),
        (op::SEND_SE_INV, true, Some(Stag(0x1234_5678))),
    ] {
        let stream = fpdu(&untagged_inv(LAST, control, 0x1234_5678, 0, 1, 0, &[1, 2]));
        let mut probe = Probe::new();
        check!(verdict(&stream, &mut probe).is_ok());
        let event = Event::Recv {
            len: 2,
            solicited,
            invalidate,
        };
        check_eq!(probe.event, Some(event));
    }
    Ok(())
}

//= 5041-4.3-4
/// RFC 5041 s4.3: "Each DDP Segment within a specific DDP Message MUST contain the same value for
/// the RsvdULP field."
pub(crate) fn send_opcode_changes() -> Outcome {
    let stream = Wire::new()
        .bytes(fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1])).get())
        .bytes(fpdu(&untagged(LAST, op::SEND_INV, 0, 1, 1, &[2])).get());
    let got = code(&stream, &mut Probe::new());
    check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
    Ok(())
}

//= 5040-5.3-10a, 5040-5.3-10b, 5040-7.2-4, 5040-7.2-5
/// s5.3, s7.2: the Invalidate STag must be valid and of this stream.
pub(crate) fn invalidate_refused() -> Outcome {
    let stream = fpdu(&untagged_inv(LAST, op::SEND_INV, 7, 0, 1, 0, &[1]));
    for (why, expected) in [
        (Refusal::CannotInvalidate, TermCode::CANNOT_INVALIDATE),
        (Refusal::NotAssociated, TermCode::CANNOT_INVALIDATE),
        (Refusal::Access, TermCode::CANNOT_INVALIDATE),
        (Refusal::InvalidStag, TermCode::READ_INVALID_STAG),
        (Refusal::Local, TermCode::LOCAL_CATASTROPHIC),
    ] {
        let mut probe = Probe::refusing(Call::Deliver, why);
        check_eq!(code(&stream, &mut probe), Some(expected));
        check_eq!(probe.placed, 1);
    }
    // A Send without Invalidate cannot fail so: the refusal is a fault of the handler.
    let mut probe = Probe::refusing(Call::Deliver, Refusal::CannotInvalidate);
    let got = code(&send(1, &[]), &mut probe);
    check_eq!(got, Some(TermCode::LOCAL_CATASTROPHIC));
    Ok(())
}

//= 5040-4.1-8, 5040-7.2-3, 5040-7.2-8, 5044-C.1-1
/// s7.2: "The RDMA Version MUST be valid."
pub(crate) fn version() -> Outcome {
    for rv in [0x00, 0x80, 0xc0] {
        for stream in [
            fpdu(&untagged(LAST, rv | 3, 0, 1, 0, &[1])),
            fpdu(&tagged(TAGGED_LAST, rv, 1, 2, &[3])),
        ] {
            let fault = verdict(&stream, &mut Probe::new()).err();
            let expected = FaultKind::Rdmap(TermCode::RDMAP_VERSION);
            check_eq!(fault.map(|f| f.kind()), Some(expected));
        }
    }
    Ok(())
}

//= 5040-7.2-2, 5040-7.2-7
/// s7.2: "The RDMA OpCode MUST be valid."
pub(crate) fn reserved_opcodes() -> Outcome {
    for opcode in 8..16 {
        for stream in [
            fpdu(&untagged(LAST, 0x40 | opcode, 0, 1, 0, &[1])),
            // As a Read Request, and as a Terminate.
            fpdu(&untagged(LAST, 0x40 | opcode, 1, 1, 0, &[0; 28])),
            fpdu(&untagged(LAST, 0x40 | opcode, 2, 1, 0, &[0; 4])),
            fpdu(&tagged(TAGGED_LAST, 0x40 | opcode, 1, 2, &[3])),
        ] {
            let got = code(&stream, &mut Probe::new());
            check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
        }
    }
    Ok(())
}

//= 5040-4.1-5
/// s4.1 Figure 4: the T flag belongs to the opcode.
pub(crate) fn opcode_in_tagged_segment() -> Outcome {
    for control in [op::READ_REQUEST, op::SEND, op::SEND_INV, op::SEND_SE] {
        let stream = fpdu(&tagged(TAGGED_LAST, control, 1, 2, &[0; 28]));
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!(probe.begun, 0);
    }
    Ok(())
}

//= 5040-4.1-5, 5040-7.2-2, 5040-7.2-7, 5041-7.1-1a
/// s4.1 Figure 4: the queue number belongs to the opcode.
pub(crate) fn opcode_on_wrong_queue() -> Outcome {
    for (control, queue) in [
        (op::WRITE, 3),
        (op::READ_REQUEST, 1),
        (op::READ_RESPONSE, 3),
        (op::SEND, 0),
        (op::SEND_INV, 0),
        (op::SEND_SE, 0),
        (op::SEND_SE_INV, 0),
        (op::TERMINATE, 2),
    ] {
        for qn in 0..3 {
            let stream = fpdu(&untagged(LAST, control, qn, 1, 0, &[0; 28]));
            let got = code(&stream, &mut Probe::new());
            if qn == queue {
                check_eq!(got, None);
            } else {
                check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
            }
        }
    }
    Ok(())
}

fn request() -> (Wire, ReadRequest) {
    let wire = read_header(0x11, 0x2222_0000_0001, 0x33, 0x44, 0x5555_0000_0002);
    let request = ReadRequest {
        sink_stag: Stag(0x11),
        sink_to: TaggedOffset(0x2222_0000_0001),
        len: 0x33,
        src_stag: Stag(0x44),
        src_to: TaggedOffset(0x5555_0000_0002),
    };
    (wire, request)
}

//= 5040-4.4-1, 5040-5.2.1-4, 5040-5.2.1-5
/// s4.4 Figure 6.
pub(crate) fn read_request_fields() -> Outcome {
    let (header, expected) = request();
    let mut probe = Probe::new();
    check!(verdict(&read_request(1, &header), &mut probe).is_ok());
    check_eq!(probe.event, Some(Event::ReadRequest(expected)));
    check_eq!((probe.begun, probe.placed), (0, 0));
    check_eq!(expected.to_bytes(), header.get());
    Ok(())
}

/// DDP allows a Read Request in two segments, though no known peer sends one.
pub(crate) fn read_request_in_two_segments() -> Outcome {
    let (header, expected) = request();
    let (front, back) = header.get().split_at(11);
    let stream = Wire::new()
        .bytes(fpdu(&untagged(MORE, op::READ_REQUEST, 1, 1, 0, front)).get())
        .bytes(fpdu(&untagged(LAST, op::READ_REQUEST, 1, 1, 11, back)).get());
    let mut probe = Probe::new();
    let mut rx = receiver();
    for byte in stream.get() {
        check!(receive(&mut rx, &[*byte], &mut probe).is_ok());
    }
    check_eq!(probe.event, Some(Event::ReadRequest(expected)));
    Ok(())
}

//= 5041-7.1-1d
/// The untagged buffers of QN 1 are as long as the header.
pub(crate) fn read_request_too_long() -> Outcome {
    let stream = read_request(1, &request().0.u8(0));
    let mut probe = Probe::new();
    check_eq!(code(&stream, &mut probe), Some(TermCode::MESSAGE_TOO_LONG));
    check_eq!(probe.delivered, 0);
    Ok(())
}

/// s4.4: the header "MUST be used for all RDMA Read Request Messages".
pub(crate) fn read_request_too_short() -> Outcome {
    let (header, _) = request();
    for len in 0..28 {
        let short = Wire::new().bytes(&header.get()[..len]);
        let mut probe = Probe::new();
        check_eq!(
            code(&read_request(1, &short), &mut probe),
            Some(TermCode::OPERATION_UNSPECIFIED)
        );
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 5040-5.2.1-13, 5040-7.2-13
/// s7.2 rule 4e.
pub(crate) fn read_request_to_wrap() -> Outcome {
    let wraps = read_request(1, &read_header(1, 2, 16, 4, u64::MAX - 15));
    let mut probe = Probe::new();
    check_eq!(code(&wraps, &mut probe), Some(TermCode::READ_TO_WRAP));
    let highest = read_request(1, &read_header(1, 2, 15, 4, u64::MAX - 15));
    check!(verdict(&highest, &mut Probe::new()).is_ok());
    Ok(())
}

//= 5040-5.2.1-14
/// s5.2.1: for a size of zero the source "MUST NOT validate the Data Source STag and Data Source
/// Tagged Offset".
pub(crate) fn read_request_zero_length_not_validated() -> Outcome {
    let stream = read_request(1, &read_header(1, 2, 0, 0, u64::MAX));
    let mut probe = Probe::new();
    check!(verdict(&stream, &mut probe).is_ok());
    check_eq!(probe.delivered, 1);
    Ok(())
}

//= 5040-5.2.1-13, 5040-7.2-9, 5040-7.2-10, 5040-7.2-11, 5040-7.2-12
/// s4.8 Figure 9: Remote Protection Errors.
pub(crate) fn read_request_refused() -> Outcome {
    for (why, expected) in [
        (Refusal::InvalidStag, TermCode::READ_INVALID_STAG),
        (Refusal::Bounds, TermCode::READ_BOUNDS),
        (Refusal::Access, TermCode::READ_ACCESS),
        (Refusal::NotAssociated, TermCode::READ_NOT_ASSOCIATED),
        (Refusal::Wrap, TermCode::READ_TO_WRAP),
        (Refusal::Local, TermCode::LOCAL_CATASTROPHIC),
    ] {
        let mut probe = Probe::refusing(Call::Deliver, why);
        let got = code(&read_request(1, &request().0), &mut probe);
        check_eq!(got, Some(expected));
    }
    Ok(())
}

//= 5040-5.2.1-3, 5040-6.1-5, 5041-7.1-1b
/// s6.1: the peer must not exceed the inbound read queue depth; there is no untagged buffer for the
/// request then.
pub(crate) fn read_queue_full() -> Outcome {
    let mut probe = Probe::refusing(Call::Deliver, Refusal::ReadQueueFull);
    let got = code(&read_request(1, &request().0), &mut probe);
    check_eq!(got, Some(TermCode::NO_BUFFER));
    Ok(())
}

fn response(ddp: u8, stag: u32, to: u64, payload: &[u8]) -> Wire {
    fpdu(&tagged(ddp, op::READ_RESPONSE, stag, to, payload))
}

fn answered(offset: u32, len: u32, first: bool, last: bool) -> Option<Placement> {
    Some(Placement {
        target: Target::ReadResponse { offset },
        len,
        first,
        last,
    })
}

//= 5040-5.2.2-4, 5040-5.5-11
/// s5.2.2.
pub(crate) fn read_response() -> Outcome {
    let mut probe = Probe::reading(7, 100, 3);
    check!(verdict(&response(TAGGED_LAST, 7, 100, &[1, 2, 3]), &mut probe).is_ok());
    check_eq!(probe.placement, answered(0, 3, true, true));
    check_eq!(probe.event, Some(Event::ReadResponse { len: 3 }));
    check_eq!(probe.data.get(), &[1, 2, 3]);
    Ok(())
}

/// Every segment of a Read Response continues where the last one ended.
pub(crate) fn read_response_several_segments() -> Outcome {
    let mut probe = Probe::reading(7, u64::MAX - 5, 5);
    let mut rx = receiver();
    let first = response(TAGGED_MORE, 7, u64::MAX - 5, &[1, 2, 3]);
    check!(receive(&mut rx, first.get(), &mut probe).is_ok());
    check_eq!(probe.placement, answered(0, 3, true, false));
    // The receiver asks for the head of the read queue once per response.
    probe.expect = None;
    let last = response(TAGGED_LAST, 7, u64::MAX - 2, &[4, 5]);
    check!(receive(&mut rx, last.get(), &mut probe).is_ok());
    check_eq!(probe.placement, answered(3, 2, false, true));
    check_eq!(probe.event, Some(Event::ReadResponse { len: 5 }));
    Ok(())
}

//= 5041-5.2-10
/// s5.2.1: "MUST respond with a zero-length RDMA Read Response Message", whose STag and TO are not
/// checked.
pub(crate) fn read_response_zero_length() -> Outcome {
    let mut probe = Probe::reading(7, 100, 0);
    check!(verdict(&response(TAGGED_LAST, 8, 1, &[]), &mut probe).is_ok());
    check_eq!(probe.event, Some(Event::ReadResponse { len: 0 }));
    check_eq!(probe.begun, 0);
    Ok(())
}

/// A Read Response arrives although no RDMA Read is outstanding.
pub(crate) fn read_response_unexpected() -> Outcome {
    for payload in [&[1][..], &[]] {
        let mut probe = Probe::new();
        let got = code(&response(TAGGED_LAST, 7, 100, payload), &mut probe);
        check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!((probe.begun, probe.delivered), (0, 0));
    }
    Ok(())
}

//= 5040-5.2.2-6, 5041-7.1-2a
/// s5.2.2: "The Data Sink MAY validate that the STag [...] are the same".
pub(crate) fn read_response_other_stag() -> Outcome {
    let mut probe = Probe::reading(7, 100, 3);
    let got = code(&response(TAGGED_LAST, 8, 100, &[1, 2, 3]), &mut probe);
    check_eq!(got, Some(TermCode::TAGGED_INVALID_STAG));
    check_eq!(probe.begun, 0);
    Ok(())
}

//= 5041-7.1-2c
/// The same for the TO, in the first segment and in later ones.
pub(crate) fn read_response_other_to() -> Outcome {
    let mut probe = Probe::reading(7, 100, 3);
    let got = code(&response(TAGGED_LAST, 7, 99, &[1, 2, 3]), &mut probe);
    check_eq!(got, Some(TermCode::TAGGED_BOUNDS));
    check_eq!(probe.begun, 0);
    for to in [100, 101, 103] {
        let stream = Wire::new()
            .bytes(response(TAGGED_MORE, 7, 100, &[1, 2]).get())
            .bytes(response(TAGGED_LAST, 7, to, &[3]).get());
        let mut probe = Probe::reading(7, 100, 3);
        check_eq!(code(&stream, &mut probe), Some(TermCode::TAGGED_BOUNDS));
        check_eq!(probe.placed, 2);
    }
    Ok(())
}

//= 5041-7.1-2d
/// The same for the length.
pub(crate) fn read_response_too_long() -> Outcome {
    let mut probe = Probe::reading(7, 100, 3);
    let got = code(&response(TAGGED_LAST, 7, 100, &[1, 2, 3, 4]), &mut probe);
    check_eq!(got, Some(TermCode::TAGGED_BOUNDS));
    check_eq!(probe.begun, 0);
    let stream = Wire::new()
        .bytes(response(TAGGED_MORE, 7, 100, &[1, 2, 3]).get())
        .bytes(response(TAGGED_LAST, 7, 103, &[4]).get());
    let mut probe = Probe::reading(7, 100, 3);
    check_eq!(code(&stream, &mut probe), Some(TermCode::TAGGED_BOUNDS));
    check_eq!(probe.placed, 3);
    Ok(())
}

//= 5040-5.5-9, 5040-5.5-11
/// A response that ends early must not complete the read.
pub(crate) fn read_response_too_short() -> Outcome {
    for payload in [&[1, 2][..], &[]] {
        let mut probe = Probe::reading(7, 100, 3);
        let got = code(&response(TAGGED_LAST, 7, 100, payload), &mut probe);
        check_eq!(got, Some(TermCode::OPERATION_UNSPECIFIED));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

//= 5040-5.4-4, 5040-5.4-5, 5040-5.4-6, 5040-5.4-7
/// s5.4: a Terminate "ceases all further communications on the underlying DDP Stream".
pub(crate) fn terminate_closes() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    let stream = Wire::new()
        .bytes(terminate(&Wire::new().u32(0x0206_0000)).get())
        .bytes(send(1, &[1, 2, 3]).get());
    check!(receive(&mut rx, stream.get(), &mut probe).is_ok());
    check!(receive(&mut rx, &[0xff; 40], &mut probe).is_ok());
    check_eq!(probe.delivered, 1);
    match probe.event {
        Some(Event::Terminate(t)) => check_eq!(t.code(), TermCode::UNEXPECTED_OPCODE),
        _ => check!(false),
    }
    check!(rx.at_boundary());
    Ok(())
}

//= 5040-5.4-5
/// s7.1 case 1: the Terminate is "sent instead of" what its sender cannot finish.
pub(crate) fn terminate_within_message() -> Outcome {
    for open in [
        fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1])),
        fpdu(&tagged(TAGGED_MORE, op::WRITE, 1, 0, &[1])),
        fpdu(&untagged(MORE, op::READ_REQUEST, 1, 1, 0, &[1])),
    ] {
        let mut probe = Probe::new();
        let stream = open.bytes(terminate(&Wire::new().u32(0x0000_0000)).get());
        check!(verdict(&stream, &mut probe).is_ok());
        check!(matches!(probe.event, Some(Event::Terminate(_))));
    }
    Ok(())
}

/// s5.4: "when an invalid Terminate Message is delivered [...] an error is surfaced"; s7.1 does not
/// ask for a Terminate in reply.
pub(crate) fn terminate_too_short() -> Outcome {
    for len in 0..4 {
        let mut rx = receiver();
        let mut probe = Probe::new();
        let stream = terminate(&Wire::new().fill(0, len));
        let Err(fault) = receive(&mut rx, stream.get(), &mut probe) else {
            check!(false);
            return Ok(());
        };
        check!(matches!(fault.kind(), FaultKind::Rdmap(_)));
        check_eq!(fault.term(), None);
        check!(rx.terminate_for(&fault).is_none());
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

/// A Terminate may announce headers that it does not contain. They are treated as absent, and its
/// error is still reported.
pub(crate) fn terminate_promising_too_much() -> Outcome {
    let full = Wire::new()
        .u32(0x0101_e000)
        .u16(46)
        .bytes(untagged(LAST, op::READ_REQUEST, 1, 1, 0, &[]).get())
        .bytes(request().0.get());
    for len in 4..full.len() + 20 {
        let mut probe = Probe::new();
        let header = full.clone().fill(0xee, 20);
        let header = Wire::new().bytes(&header.get()[..len]);
        check!(verdict(&terminate(&header), &mut probe).is_ok());
        let Some(Event::Terminate(t)) = probe.event else {
            check!(false);
            return Ok(());
        };
        check_eq!(t.code(), TermCode::READ_BOUNDS);
        check_eq!(t.segment_length().is_some(), len >= 6);
        check_eq!(t.ddp_header().is_some(), len >= 24);
        check_eq!(t.read_request().is_some(), len >= 52);
    }
    Ok(())
}

/// RFC 6581 s9.2: a zero-length Send as RTR consumes an MSN, but no receive buffer of the ULP.
pub(crate) fn rtr_send() -> Outcome {
    let mut rx = receiver();
    rx.expect_rtr_send();
    let mut probe = Probe::new();
    check!(receive(&mut rx, send(1, &[]).get(), &mut probe).is_ok());
    check_eq!(probe.event, Some(Event::Rtr));
    check_eq!(probe.begun, 0);
    check!(receive(&mut rx, send(2, &[]).get(), &mut probe).is_ok());
    check_eq!(probe.begun, 1);
    check!(matches!(probe.event, Some(Event::Recv { len: 0, .. })));
    Ok(())
}

/// Only the first FPDU is the RTR, and only if it is a zero-length Send.
pub(crate) fn rtr_send_only_first() -> Outcome {
    for first in [
        send(1, &[1]),
        fpdu(&untagged(LAST, op::SEND_SE, 0, 1, 0, &[])),
        write(1, 2, &[3]),
    ] {
        let mut rx = receiver();
        rx.expect_rtr_send();
        let mut probe = Probe::new();
        check!(receive(&mut rx, first.get(), &mut probe).is_ok());
        check!(probe.event != Some(Event::Rtr));
        let begun = probe.begun;
        let msn = if begun == 1 && first.get()[2] & 0x80 == 0 {
            2
        } else {
            1
        };
        check!(receive(&mut rx, send(msn, &[]).get(), &mut probe).is_ok());
        check!(matches!(probe.event, Some(Event::Recv { len: 0, .. })));
        check_eq!(probe.begun, begun + 1);
    }
    Ok(())
}

/// A zero-length Write or Read as RTR is handled as any other.
pub(crate) fn rtr_write_and_read() -> Outcome {
    let mut probe = Probe::new();
    check!(verdict(&write(0, 0, &[]), &mut probe).is_ok());
    check_eq!(probe.event, Some(Event::Write { len: 0 }));
    let read = read_request(1, &read_header(0, 0, 0, 0, 0));
    check!(verdict(&read, &mut probe).is_ok());
    check_eq!(
        probe.event,
        Some(Event::ReadRequest(ReadRequest::default()))
    );
    Ok(())
}
