// SPDX-License-Identifier: GPL-2.0

//! RDMAP rules: opcodes, invalidation, Terminate, RTR (RFC 5040, RFC 6581 s9.2).

mod read;

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

/// A Read Request, and what it says.
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
