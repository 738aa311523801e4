// SPDX-License-Identifier: GPL-2.0

//! Opcodes beyond RFC 5040: those of RFC 7306; and what no RFC has, Sends with immediate data,
//! flushes and atomic Writes.

use iwarp::rdmap::{AtomicOp, AtomicRequest, Flush, Immediate};
use iwarp::rx::{Event, Receiver, Refusal};
use iwarp::{Stag, TaggedOffset, TermCode, Terminate};

use super::probe::extended::{code, receiver, verdict};
use super::probe::{self, receive, recv, Call, Probe};
use super::wire::{
    atomic_header, atomic_request, atomic_response, fpdu, halves, immediate, op, send, tagged,
    untagged, untagged_inv, Wire, LAST, MORE, TAGGED_LAST,
};
use super::Outcome;

cases! { rsiw_iwarp_rules_extensions:
    opcodes_are_reserved
    opcodes_are_allowed_later
    opcodes_above_are_reserved
    opcodes_in_tagged_segments
    opcodes_on_queues
    queue_numbers
    versions
    reserved_fields_ignored
    send_immediate_has_to_be_agreed
    send_immediate
    send_immediate_in_two_segments
    send_immediate_waits_for_buffer
    send_immediate_refused
    atomic_request_of_no_rfc
}

const DATA: [u8; 8] = [0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8];

/// The four messages, each right.
fn messages() -> [Wire; 4] {
    [
        immediate(1, &DATA),
        fpdu(&untagged(LAST, op::IMMEDIATE_SE, 0, 1, 0, &DATA)),
        atomic_request(1, &atomic_header(0, 1, 2, 8, [3, 0, 0, !0])),
        atomic_response(1, 1, 2),
    ]
}

//= 7306-4.1-2, 7306-8.2-3
/// RFC 5040 s4.1 Figure 4: without the extensions the opcodes are reserved, and the Terminate is
/// the one for any reserved opcode.
pub(crate) fn opcodes_are_reserved() -> Outcome {
    for message in messages() {
        let mut probe = Probe::new();
        let got = probe::terminate_for(&message, &mut probe);
        check_eq!(got.map(|t| t.code()), Some(TermCode::UNEXPECTED_OPCODE));
        let header = got.as_ref().and_then(Terminate::ddp_header);
        check_eq!(header, message.get().get(2..20));
        check_eq!((probe.begun, probe.delivered), (0, 0));

        let mut probe = Probe::new();
        check!(verdict(&message, &mut probe).is_ok());
        check_eq!(probe.delivered, 1);
    }
    Ok(())
}

/// The extensions may be allowed at any boundary of FPDUs.
pub(crate) fn opcodes_are_allowed_later() -> Outcome {
    let mut rx = probe::receiver();
    let mut probe = Probe::new();
    check!(receive(&mut rx, send(1, &[1]).get(), &mut probe).is_ok());
    rx.allow_extensions();
    check!(receive(&mut rx, immediate(2, &DATA).get(), &mut probe).is_ok());
    let (data, solicited) = (Immediate(DATA), false);
    check_eq!(probe.event, Some(Event::Immediate { data, solicited }));
    Ok(())
}

//= 7306-4.1-2, 7306-8.2-3
/// s10: the RFC has the opcodes up to 1011b.
pub(crate) fn opcodes_above_are_reserved() -> Outcome {
    for opcode in 12..16 {
        for qn in 0..4 {
            let stream = fpdu(&untagged(LAST, 0x40 | opcode, qn, 1, 0, &DATA));
            let got = code(&stream, &mut Probe::new());
            check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
        }
    }
    Ok(())
}

//= 7306-5-4, 7306-5.2.1-7, 7306-6.3-1
/// Figure 2: the Tagged Flag is 0.
pub(crate) fn opcodes_in_tagged_segments() -> Outcome {
    for opcode in op::IMMEDIATE..=op::ATOMIC_RESPONSE {
        let stream = fpdu(&tagged(TAGGED_LAST, opcode, 1, 2, &DATA));
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!((probe.begun, probe.delivered), (0, 0));
    }
    Ok(())
}

//= 7306-5-4, 7306-5.2-1, 7306-5.2-2, 7306-5.2.1-13, 7306-5.2.2-3, 7306-6.3-5, 7306-8.2-2
/// Figure 2: each opcode has its Queue Number.
pub(crate) fn opcodes_on_queues() -> Outcome {
    for (opcode, queue, len) in [
        (op::IMMEDIATE, 0, 8),
        (op::IMMEDIATE_SE, 0, 8),
        (op::ATOMIC_REQUEST, 1, 52),
        (op::ATOMIC_RESPONSE, 3, 12),
        (op::SEND, 0, 0),
        (op::READ_REQUEST, 1, 28),
        (op::TERMINATE, 2, 4),
    ] {
        for qn in 0..4 {
            let body = Wire::new().fill(0, len);
            let stream = fpdu(&untagged(LAST, opcode, qn, 1, 0, body.get()));
            let mut probe = Probe::new();
            let got = code(&stream, &mut probe);
            if qn == queue {
                check_eq!((got, probe.delivered), (None, 1));
            } else {
                check_eq!(got, Some(TermCode::UNEXPECTED_OPCODE));
                check_eq!((probe.begun, probe.delivered), (0, 0));
            }
        }
    }
    Ok(())
}

//= 7306-4.1-4, 7306-8.2-2
/// s10.2: the last queue is number 3.
pub(crate) fn queue_numbers() -> Outcome {
    for opcode in [
        op::SEND,
        op::IMMEDIATE,
        op::ATOMIC_REQUEST,
        op::ATOMIC_RESPONSE,
    ] {
        for qn in [4, 0x0300_0000, u32::MAX] {
            let stream = fpdu(&untagged(LAST, opcode, qn, 1, 0, &DATA));
            let got = code(&stream, &mut Probe::new());
            check_eq!(got, Some(TermCode::INVALID_QN));
        }
    }
    Ok(())
}

//= 7306-4.1-1, 7306-8.2-1, 7306-8.2-2, 7306-8.2-4
/// s4.1: "The RDMA Version (RV) field: 01b." s8.2: "The RDMA Version MUST be valid", and the DDP
/// layer's field, too. Both outrank an opcode that is not allowed.
pub(crate) fn versions() -> Outcome {
    type Code = fn(&Wire, &mut Probe) -> Option<TermCode>;
    for code in [code as Code, probe::code] {
        for opcode in 8..16 {
            for version in [0, 2, 3] {
                let rdmap = untagged(LAST, (version << 6) | opcode, 0, 1, 0, &DATA);
                let got = code(&fpdu(&rdmap), &mut Probe::new());
                check_eq!(got, Some(TermCode::RDMAP_VERSION));
                for control in [0x40 | opcode, opcode] {
                    let ddp = untagged(0x40 | version, control, 0, 1, 0, &DATA);
                    let got = code(&fpdu(&ddp), &mut Probe::new());
                    check_eq!(got, Some(TermCode::UNTAGGED_VERSION));
                    let ddp = tagged(0xc0 | version, control, 1, 2, &DATA);
                    let got = code(&fpdu(&ddp), &mut Probe::new());
                    check_eq!(got, Some(TermCode::TAGGED_VERSION));
                }
            }
        }
    }
    Ok(())
}

//= 7306-4.1-3
/// s4.1: "Invalidate STag: Set to zero by the sender, ignored by the receiver", as are the reserved
/// bits of both Control Fields.
pub(crate) fn reserved_fields_ignored() -> Outcome {
    for (opcode, qn, len) in [
        (op::IMMEDIATE, 0, 8),
        (op::IMMEDIATE_SE, 0, 8),
        (op::ATOMIC_REQUEST, 1, 52),
        (op::ATOMIC_RESPONSE, 3, 12),
    ] {
        let body = Wire::new().fill(0, len);
        let ulpdu = untagged_inv(
            LAST | 0x3c,
            opcode | 0x30,
            0xffff_ffff,
            qn,
            1,
            0,
            body.get(),
        );
        let mut probe = Probe::new();
        check!(verdict(&fpdu(&ulpdu), &mut probe).is_ok());
        check_eq!(probe.delivered, 1);
    }
    Ok(())
}

/// A receiver that takes Sends with immediate data, and no message of RFC 7306.
fn agreed() -> Receiver {
    let mut rx = probe::receiver();
    rx.allow_send_immediate();
    rx
}

/// A Send with immediate data d1 d2 d3 d4.
fn send_imm(ddp: u8, control: u8, msn: u32, mo: u32, payload: &[u8]) -> Wire {
    fpdu(&untagged_inv(
        ddp,
        control,
        0xd1d2_d3d4,
        0,
        msn,
        mo,
        payload,
    ))
}

/// Whether the last message is a Send with that immediate data.
fn got(probe: &Probe, len: u32, solicited: bool) -> bool {
    let data = [0xd1, 0xd2, 0xd3, 0xd4];
    let event = Event::RecvImmediate {
        len,
        solicited,
        data,
    };
    probe.event == Some(event)
}

/// Without the agreement of both ends its opcodes are reserved. It does not allow those of RFC
/// 7306, nor do these allow it.
pub(crate) fn send_immediate_has_to_be_agreed() -> Outcome {
    for control in [op::SEND_IMM, op::SEND_SE_IMM] {
        let stream = send_imm(LAST, control, 1, 0, &[1]);
        for mut rx in [probe::receiver(), receiver()] {
            let mut probe = Probe::new();
            let fault = receive(&mut rx, stream.get(), &mut probe).err();
            let code = fault.and_then(|f| f.term());
            check_eq!(code, Some(TermCode::UNEXPECTED_OPCODE));
            check_eq!((probe.begun, probe.delivered), (0, 0));
        }
        check!(receive(&mut agreed(), stream.get(), &mut Probe::new()).is_ok());
    }
    for message in messages() {
        let fault = receive(&mut agreed(), message.get(), &mut Probe::new()).err();
        let code = fault.and_then(|f| f.term());
        check_eq!(code, Some(TermCode::UNEXPECTED_OPCODE));
    }
    // They are untagged, and on the queue of the Sends.
    for control in [op::SEND_IMM, op::SEND_SE_IMM] {
        for stream in [
            fpdu(&tagged(TAGGED_LAST, control, 1, 2, &[3])),
            fpdu(&untagged(LAST, control, 1, 1, 0, &[3])),
            fpdu(&untagged(LAST, control, 2, 1, 0, &[3])),
        ] {
            let mut probe = Probe::new();
            let fault = receive(&mut agreed(), stream.get(), &mut probe).err();
            let code = fault.and_then(|f| f.term());
            check_eq!(code, Some(TermCode::UNEXPECTED_OPCODE));
            check_eq!(probe.begun, 0);
        }
    }
    Ok(())
}

/// It is a Send, but for the immediate data, and takes one of their numbers.
pub(crate) fn send_immediate() -> Outcome {
    let mut rx = agreed();
    let mut probe = Probe::new();
    let first = send_imm(LAST, op::SEND_IMM, 1, 0, &[1, 2, 3]);
    check!(receive(&mut rx, first.get(), &mut probe).is_ok());
    check!(got(&probe, 3, false));
    check_eq!(probe.placement, Some(recv(0, 3, true, true)));
    check_eq!(probe.data.get(), &[1, 2, 3]);
    let second = send_imm(LAST, op::SEND_SE_IMM, 2, 0, &[]);
    check!(receive(&mut rx, second.get(), &mut probe).is_ok());
    check!(got(&probe, 0, true));
    check!(receive(&mut rx, send(3, &[4]).get(), &mut probe).is_ok());
    check_eq!((probe.begun, probe.ended, probe.delivered), (3, 3, 3));
    // Of no length it is no RTR.
    let mut rx = agreed();
    rx.expect_rtr_send();
    let stream = send_imm(LAST, op::SEND_IMM, 1, 0, &[]);
    check!(receive(&mut rx, stream.get(), &mut probe).is_ok());
    check!(got(&probe, 0, false));
    Ok(())
}

/// It may have any number of segments, and be longer than Immediate Data.
pub(crate) fn send_immediate_in_two_segments() -> Outcome {
    let mut rx = agreed();
    let mut probe = Probe::new();
    for segment in [
        send_imm(MORE, op::SEND_IMM, 1, 0, &[1; 10]),
        send_imm(LAST, op::SEND_IMM, 1, 10, &[2; 20]),
    ] {
        check_eq!(probe.delivered, 0);
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
    }
    check!(got(&probe, 30, false));
    check_eq!(probe.placement, Some(recv(10, 20, false, true)));
    Ok(())
}

/// It waits for a buffer, and behind an RDMA Write, as any Send.
pub(crate) fn send_immediate_waits_for_buffer() -> Outcome {
    let stream = send_imm(LAST, op::SEND_IMM, 1, 0, &[1, 2]);
    let mut probe = Probe::refusing(Call::Begin, Refusal::Wait);
    let mut rx = agreed();
    const HEADER: usize = 20;
    check_eq!(receive(&mut rx, stream.get(), &mut probe), Ok(HEADER));
    probe.refuse = None;
    check!(receive(&mut rx, &stream.get()[HEADER..], &mut probe).is_ok());
    check!(got(&probe, 2, false));

    let [first, last] = halves();
    let mut rx = agreed();
    let mut probe = Probe::new();
    for (segment, delivered) in [(first, 0), (stream, 0), (last, 2)] {
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.delivered, delivered);
    }
    check!(got(&probe, 2, false));
    Ok(())
}

/// Its faults are those of a Send.
pub(crate) fn send_immediate_refused() -> Outcome {
    let stream = send_imm(LAST, op::SEND_SE_IMM, 1, 0, &[1, 2]);
    for (why, expected) in [
        (Refusal::NoBuffer, TermCode::NO_BUFFER),
        (Refusal::TooLong, TermCode::MESSAGE_TOO_LONG),
        (Refusal::Local, TermCode::LOCAL_CATASTROPHIC),
    ] {
        let mut probe = Probe::refusing(Call::Begin, why);
        let fault = receive(&mut agreed(), stream.get(), &mut probe).err();
        check_eq!(fault.and_then(|f| f.term()), Some(expected));
        check_eq!(probe.delivered, 0);
    }
    Ok(())
}

/// The codes 14 and 15, once both ends have agreed on them: a value that is written, and a flush,
/// which has no flags that nobody knows, and no more than 32 bits of length.
pub(crate) fn atomic_request_of_no_rfc() -> Outcome {
    const VALUE: u64 = u64::from_be_bytes(DATA);
    let asked = |op| {
        let (id, stag, to) = (7, Stag(2), TaggedOffset(8));
        Some(Event::AtomicRequest(AtomicRequest { id, stag, to, op }))
    };
    let result = |code, fields| {
        let (mut rx, mut probe) = (receiver(), Probe::new());
        rx.allow_send_immediate();
        let header = atomic_header(code, 7, 2, 8, fields);
        let result = receive(&mut rx, atomic_request(1, &header).get(), &mut probe);
        let code = result.err().and_then(|fault| fault.term());
        (probe.event, code)
    };
    let bytes = DATA;
    let wrote = asked(AtomicOp::Write { bytes });
    check_eq!(result(14, [VALUE, 2, 3, 4]), (wrote, None));
    for flags in 0..16 {
        let flush = Flush {
            len: u32::MAX,
            global: flags & 1 != 0,
            persistent: flags & 2 != 0,
            all: flags & 4 != 0,
        };
        let flushed = asked(AtomicOp::Flush(flush));
        let unknown = Some(TermCode::UNEXPECTED_OPCODE);
        let expected = if flags < 8 {
            (flushed, None)
        } else {
            (None, unknown)
        };
        check_eq!(result(15, [u32::MAX.into(), flags, 3, 4]), expected);
        check_eq!(result(15, [1 << 32, flags, 3, 4]), (None, unknown));
    }
    for code in [1].into_iter().chain(3..14) {
        let refused = (None, Some(TermCode::UNEXPECTED_OPCODE));
        check_eq!(result(code, [VALUE, 2, 3, 4]), refused);
    }
    Ok(())
}
