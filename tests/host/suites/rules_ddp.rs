// SPDX-License-Identifier: GPL-2.0

//! DDP rules: headers, queues, sequence, offsets, placement (RFC 5041).

use super::probe::{code, receive, receiver, recv, terminate_for, verdict, Call, Probe};
use super::wire::{
    fpdu, op, read_header, read_request, send, tagged, untagged, write, Wire, LAST, MORE,
    TAGGED_LAST, TAGGED_MORE,
};
use super::Outcome;
use iwarp::rx::{Event, FaultKind, Placement, Receiver, Refusal, RxConfig, Target};
use iwarp::{Stag, TaggedOffset, TermCode};

cases! { rsiw_iwarp_rules_ddp:
    send_single_segment
    send_several_segments
    send_zero_length_takes_buffer
    send_longer_than_buffer
    send_without_buffer
    send_waits_for_buffer
    send_waits_in_vain
    only_the_first_segment_of_a_send_waits
    write_single_segment
    write_several_segments
    write_zero_length_not_checked
    write_segments_out_of_order
    write_stag_changes
    write_to_wrap
    write_refused
    reserved_bits_ignored
    version_tagged
    version_untagged
    queue_numbers
    msn_starts_at_one
    msn_out_of_sequence
    msn_per_queue
    mo_out_of_sequence
    mo_nonzero_first
    refused_segment_is_not_placed
    refused_half_way
    refused_end_of_segment
}

//= 5040-5.3-3, 5041-4.1-2, 5041-4.3-1
/// s5.1.2: an untagged message fills the buffer at the head of its queue.
pub(crate) fn send_single_segment() -> Outcome {
    let mut probe = Probe::new();
    check!(verdict(&send(1, &[1, 2, 3]), &mut probe).is_ok());
    check_eq!(probe.placement, Some(recv(0, 3, true, true)));
    check_eq!(probe.data.get(), &[1, 2, 3]);
    check_eq!((probe.begun, probe.ended, probe.delivered), (1, 1, 1));
    Ok(())
}

//= 5040-5.5-7, 5041-4.1-7, 5041-5.4-1, 5041-5.4-1a, 5041-5.4-2
/// s5.2: MO is the offset in the message. s5.4: the message's length is the last MO plus length.
pub(crate) fn send_several_segments() -> Outcome {
    let mut probe = Probe::new();
    let mut rx = receiver();
    let parts = [
        (MORE, 0, &[1, 2, 3][..], recv(0, 3, true, false)),
        (MORE, 3, &[4, 5], recv(3, 2, false, false)),
        (MORE, 5, &[], recv(5, 0, false, false)),
        (LAST, 5, &[6], recv(5, 1, false, true)),
    ];
    for (ddp, mo, payload, placement) in parts {
        check_eq!(probe.delivered, 0);
        let segment = fpdu(&untagged(ddp, op::SEND, 0, 1, mo, payload));
        check!(receive(&mut rx, segment.get(), &mut probe).is_ok());
        check_eq!(probe.placement, Some(placement));
    }
    check_eq!((probe.begun, probe.ended, probe.delivered), (4, 4, 1));
    check_eq!(probe.data.get(), &[1, 2, 3, 4, 5, 6]);
    let event = Event::Recv {
        len: 6,
        solicited: false,
        invalidate: None,
    };
    check_eq!(probe.event, Some(event));
    Ok(())
}

//= 5040-5.3-7
/// RFC 5040 s5.3: "A zero-length Send Message Type MUST consume an Untagged Buffer at the Data
/// Sink."
pub(crate) fn send_zero_length_takes_buffer() -> Outcome {
    let mut probe = Probe::new();
    check!(verdict(&send(1, &[]), &mut probe).is_ok());
    check_eq!(probe.placement, Some(recv(0, 0, true, true)));
    check_eq!((probe.begun, probe.ended, probe.delivered), (1, 1, 1));
    Ok(())
}

//= 5041-7.1-1d
/// s7.1: "The sum of the DDP Segment payload length and the MO falls in the range of legal offsets
/// associated with the Untagged Buffer."
pub(crate) fn send_longer_than_buffer() -> Outcome {
    let mut probe = Probe::refusing(Call::Begin, Refusal::TooLong);
    let got = code(&send(1, &[1]), &mut probe);
    check_eq!(got, Some(TermCode::MESSAGE_TOO_LONG));
    check_eq!(probe.placed, 0);
    Ok(())
}

//= 5041-7.1-1b
/// s7.1: "The QN and MSN have an associated buffer that allows Placement of the payload."
pub(crate) fn send_without_buffer() -> Outcome {
    let mut probe = Probe::refusing(Call::Begin, Refusal::NoBuffer);
    check_eq!(code(&send(1, &[]), &mut probe), Some(TermCode::NO_BUFFER));
    Ok(())
}

//= 5041-7.1-1b
/// A Send waits for a buffer that may still be posted. The receiver consumes nothing after the
/// header meanwhile. Once the buffer is there, the result is the same as if it had been there
/// before.
pub(crate) fn send_waits_for_buffer() -> Outcome {
    const HEADER: usize = 20;
    let stream = Wire::new()
        .bytes(send(1, &[1, 2, 3]).get())
        .bytes(send(2, &[]).get());
    let second = send(1, &[1, 2, 3]).len() + HEADER;
    let mut probe = Probe::refusing(Call::Begin, Refusal::Wait);
    let mut rx = receiver();
    check_eq!(receive(&mut rx, stream.get(), &mut probe), Ok(HEADER));
    for _ in 0..3 {
        check_eq!(receive(&mut rx, &stream.get()[HEADER..], &mut probe), Ok(0));
        check_eq!(receive(&mut rx, &[], &mut probe), Ok(0));
    }
    // A FIN here would truncate the FPDU.
    check!(!rx.at_boundary());
    check_eq!((probe.begun, probe.placed, probe.delivered), (0, 0, 0));

    probe.refuse = None;
    let rest = &stream.get()[HEADER..second];
    check_eq!(receive(&mut rx, rest, &mut probe), Ok(rest.len()));
    check_eq!(probe.data.get(), &[1, 2, 3]);
    check_eq!((probe.begun, probe.delivered), (2, 1));
    check_eq!(receive(&mut rx, &stream.get()[second..], &mut probe), Ok(4));
    check_eq!((probe.begun, probe.delivered), (2, 2));
    check!(rx.at_boundary());
    Ok(())
}

//= 5041-7.1-1b
/// The wait ends without a buffer. The fault is that of a Send without a buffer, but a CRC error
/// takes precedence.
pub(crate) fn send_waits_in_vain() -> Outcome {
    for bad_crc in [false, true] {
        let good = send(1, &[1, 2, 3]);
        let stream = if bad_crc {
            good.clone().flip(good.len() - 1, 1)
        } else {
            good
        };
        let mut probe = Probe::refusing(Call::Begin, Refusal::Wait);
        let mut rx = receiver();
        let at_once = terminate_for(
            &stream,
            &mut Probe::refusing(Call::Begin, Refusal::NoBuffer),
        );
        // Pass the header only: the receiver verifies the CRC of a whole FPDU before the wait.
        check_eq!(receive(&mut rx, &stream.get()[..20], &mut probe), Ok(20));
        probe.refuse = Some((Call::Begin, Refusal::NoBuffer));
        let Err(fault) = receive(&mut rx, &stream.get()[20..], &mut probe) else {
            check!(false);
            return Ok(());
        };
        check_eq!(rx.terminate_for(&fault), at_once);
        check_eq!((probe.placed, probe.delivered), (0, 0));
    }
    Ok(())
}

/// Only the first segment of a Send may wait. Another segment has a buffer or needs none, so a
/// handler that lets it wait is at fault.
pub(crate) fn only_the_first_segment_of_a_send_waits() -> Outcome {
    let mut probe = Probe::refusing(Call::Begin, Refusal::Wait);
    let fault = verdict(&write(1, 2, &[3]), &mut probe).err();
    check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Local));

    let mut probe = Probe::new();
    let mut rx = receiver();
    let first = fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1]));
    check!(receive(&mut rx, first.get(), &mut probe).is_ok());
    probe.refuse = Some((Call::Begin, Refusal::Wait));
    let second = fpdu(&untagged(LAST, op::SEND, 0, 1, 1, &[2]));
    let fault = receive(&mut rx, second.get(), &mut probe).err();
    check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Local));
    Ok(())
}

pub(super) fn written(stag: u32, to: u64, len: u32, first: bool, last: bool) -> Placement {
    Placement {
        target: Target::Write {
            stag: Stag(stag),
            to: TaggedOffset(to),
        },
        len,
        first,
        last,
    }
}

//= 5040-5.1-3, 5041-4.1-1, 5041-4.2-1, 5041-4.2-3, 5041-4.2-8
/// s5.1.1: STag and TO tell where to place a tagged segment.
pub(crate) fn write_single_segment() -> Outcome {
    let mut probe = Probe::new();
    let stream = write(0xdead_beef, 0x0123_4567_89ab_cdef, &[9, 8, 7, 6]);
    check!(verdict(&stream, &mut probe).is_ok());
    let placement = written(0xdead_beef, 0x0123_4567_89ab_cdef, 4, true, true);
    check_eq!(probe.placement, Some(placement));
    check_eq!(probe.event, Some(Event::Write { len: 4 }));
    Ok(())
}

/// A tagged message of several segments, one of them empty.
pub(crate) fn write_several_segments() -> Outcome {
    let mut probe = Probe::new();
    let mut rx = receiver();
    let first = fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 100, &[1, 2]));
    check!(receive(&mut rx, first.get(), &mut probe).is_ok());
    check_eq!(probe.placement, Some(written(5, 100, 2, true, false)));
    check!(rx.mid_message());
    let empty = fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 102, &[]));
    check!(receive(&mut rx, empty.get(), &mut probe).is_ok());
    check_eq!(probe.begun, 1);
    let last = fpdu(&tagged(TAGGED_LAST, op::WRITE, 5, 102, &[3]));
    check!(receive(&mut rx, last.get(), &mut probe).is_ok());
    check_eq!(probe.placement, Some(written(5, 102, 1, false, true)));
    check_eq!((probe.begun, probe.ended, probe.delivered), (2, 2, 1));
    check!(!rx.mid_message());
    Ok(())
}

//= 5041-5.2-9, 5041-5.2-10
/// s5.2: "The STag and TO fields MUST NOT be checked for a zero-length Tagged DDP Message."
pub(crate) fn write_zero_length_not_checked() -> Outcome {
    // The handler refuses every STag, and any length but zero would wrap at this offset.
    let mut probe = Probe::refusing(Call::Begin, Refusal::InvalidStag);
    check!(verdict(&write(0xffff_ffff, u64::MAX, &[]), &mut probe).is_ok());
    check_eq!(probe.event, Some(Event::Write { len: 0 }));
    check_eq!((probe.begun, probe.ended), (0, 0));
    Ok(())
}

/// s5.3: increasing TOs are only a SHOULD, as every segment of a Write has its own TO.
pub(crate) fn write_segments_out_of_order() -> Outcome {
    let stream = Wire::new()
        .bytes(fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 102, &[3, 4])).get())
        .bytes(fpdu(&tagged(TAGGED_LAST, op::WRITE, 5, 100, &[1, 2])).get());
    let mut probe = Probe::new();
    check!(verdict(&stream, &mut probe).is_ok());
    check_eq!(probe.placement, Some(written(5, 100, 2, false, true)));
    Ok(())
}

//= 5040-5.1-5, 5041-4.2-9
/// s4.2: "Each DDP Segment within a specific DDP Message MUST contain the same value for this
/// field."
pub(crate) fn write_stag_changes() -> Outcome {
    let stream = Wire::new()
        .bytes(fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 100, &[1, 2])).get())
        .bytes(fpdu(&tagged(TAGGED_LAST, op::WRITE, 6, 102, &[3, 4])).get());
    let got = code(&stream, &mut Probe::new());
    check_eq!(got, Some(TermCode::TAGGED_INVALID_STAG));
    Ok(())
}

//= 5041-7.1-2e
/// s7.1: "A 64-bit unsigned sum of the DDP Segment payload length and the TO does not wrap."
pub(crate) fn write_to_wrap() -> Outcome {
    let highest = write(1, u64::MAX - 4, &[1, 2, 3, 4]);
    check!(verdict(&highest, &mut Probe::new()).is_ok());
    let wraps = write(1, u64::MAX - 3, &[1, 2, 3, 4]);
    let mut probe = Probe::new();
    check_eq!(code(&wraps, &mut probe), Some(TermCode::TAGGED_TO_WRAP));
    check_eq!(probe.begun, 0);
    Ok(())
}

//= 5041-4.2-6, 5041-7.1-2, 5041-7.1-2a, 5041-7.1-2b, 5041-7.1-2c, 5041-7.1-2d, 5041-7.2-1,
//= 5041-8.2-1
/// s7.2: the codes of tagged buffer errors.
pub(crate) fn write_refused() -> Outcome {
    for (why, expected) in [
        (Refusal::InvalidStag, TermCode::TAGGED_INVALID_STAG),
        (Refusal::Bounds, TermCode::TAGGED_BOUNDS),
        (Refusal::NotAssociated, TermCode::TAGGED_NOT_ASSOCIATED),
        (Refusal::Wrap, TermCode::TAGGED_TO_WRAP),
        (Refusal::Access, TermCode::TAGGED_INVALID_STAG),
        (Refusal::Local, TermCode::LOCAL_CATASTROPHIC),
    ] {
        let mut probe = Probe::refusing(Call::Begin, why);
        check_eq!(code(&write(1, 2, &[3]), &mut probe), Some(expected));
        check_eq!(probe.placed, 0);
    }
    Ok(())
}

//= 5040-4.1-9, 5040-4.1-10, 5041-4.1-8
/// s4.1: Rsvd is "not checked on receive". RFC 5040 s4.1: neither are bits 26-27, nor the
/// Invalidate STag of a message that does not invalidate.
pub(crate) fn reserved_bits_ignored() -> Outcome {
    let untagged = Wire::new()
        .u8(LAST | 0x3c)
        .u8(op::SEND | 0x30)
        .u32(0x1234_5678)
        .u32(0)
        .u32(1)
        .u32(0)
        .bytes(&[1, 2]);
    let mut probe = Probe::new();
    check!(verdict(&fpdu(&untagged), &mut probe).is_ok());
    let event = Event::Recv {
        len: 2,
        solicited: false,
        invalidate: None,
    };
    check_eq!(probe.event, Some(event));

    let tagged = tagged(TAGGED_LAST | 0x3c, op::WRITE | 0x30, 1, 2, &[3]);
    let mut probe = Probe::new();
    check!(verdict(&fpdu(&tagged), &mut probe).is_ok());
    check_eq!(probe.event, Some(Event::Write { len: 1 }));
    Ok(())
}

//= 5040-7.2-1, 5041-4.1-10
/// s4.1: DV is 1.
pub(crate) fn version_tagged() -> Outcome {
    for dv in [0, 2, 3] {
        let stream = fpdu(&tagged(0xc0 | dv, op::WRITE, 1, 2, &[3]));
        let fault = verdict(&stream, &mut Probe::new()).err();
        let expected = FaultKind::Ddp(TermCode::TAGGED_VERSION);
        check_eq!(fault.map(|f| f.kind()), Some(expected));
        // DDP's error takes precedence over RDMAP's.
        let stream = fpdu(&tagged(0xc0 | dv, op::WRITE & 0x0f, 1, 2, &[3]));
        let fault = verdict(&stream, &mut Probe::new()).err();
        check_eq!(fault.map(|f| f.kind()), Some(expected));
    }
    Ok(())
}

//= 5041-4.1-10
/// s4.1: DV is 1.
pub(crate) fn version_untagged() -> Outcome {
    for dv in [0, 2, 3] {
        let stream = fpdu(&untagged(0x40 | dv, op::SEND, 0, 1, 0, &[3]));
        let got = code(&stream, &mut Probe::new());
        check_eq!(got, Some(TermCode::UNTAGGED_VERSION));
        let stream = fpdu(&untagged(0x40 | dv, op::SEND | 0x80, 0, 1, 0, &[3]));
        let got = code(&stream, &mut Probe::new());
        check_eq!(got, Some(TermCode::UNTAGGED_VERSION));
    }
    Ok(())
}

//= 5040-7.2-1, 5041-6.2.2-1, 5041-7.1-1, 5041-7.1-1a
/// s7.1: "The QN is valid for this stream."
pub(crate) fn queue_numbers() -> Outcome {
    for qn in [3, 4, 0x0100_0000, u32::MAX] {
        let stream = fpdu(&untagged(LAST, op::SEND, qn, 1, 0, &[]));
        let got = code(&stream, &mut Probe::new());
        check_eq!(got, Some(TermCode::INVALID_QN));
    }
    Ok(())
}

//= 5040-7.2-6, 5041-4.3-9
/// s4.3: "The initial value for MSN MUST be one."
pub(crate) fn msn_starts_at_one() -> Outcome {
    for msn in [0, 2, u32::MAX] {
        let got = code(&send(msn, &[]), &mut Probe::new());
        check_eq!(got, Some(TermCode::MSN_RANGE));
        let read = read_request(msn, &read_header(1, 2, 3, 4, 5));
        check_eq!(code(&read, &mut Probe::new()), Some(TermCode::MSN_RANGE));
        let term = fpdu(&untagged(LAST, op::TERMINATE, 2, msn, 0, &[0; 4]));
        check_eq!(code(&term, &mut Probe::new()), Some(TermCode::MSN_RANGE));
    }
    Ok(())
}

//= 5040-7.2-1, 5041-4.3-8, 5041-4.3-11, 5041-5.4-1c, 5041-7.1-1e
/// s7.1: "The Message Sequence Number falls in the range of legal Message Sequence Numbers".
pub(crate) fn msn_out_of_sequence() -> Outcome {
    for second in [1, 3, 0] {
        let stream = Wire::new()
            .bytes(send(1, &[1]).get())
            .bytes(send(second, &[2]).get());
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::MSN_RANGE));
        check_eq!(probe.delivered, 1);
    }
    // Within a message: "Each DDP segment within a specific DDP message MUST contain the same value
    // for this field."
    let stream = Wire::new()
        .bytes(fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1])).get())
        .bytes(fpdu(&untagged(LAST, op::SEND, 0, 2, 1, &[2])).get());
    let got = code(&stream, &mut Probe::new());
    check_eq!(got, Some(TermCode::MSN_RANGE));
    Ok(())
}

/// s4.3: MSNs count per queue.
pub(crate) fn msn_per_queue() -> Outcome {
    let read = read_header(1, 2, 3, 4, 5);
    let stream = Wire::new()
        .bytes(send(1, &[1]).get())
        .bytes(read_request(1, &read).get())
        .bytes(send(2, &[2]).get())
        .bytes(read_request(2, &read).get())
        .bytes(send(3, &[3]).get());
    let mut probe = Probe::new();
    check!(verdict(&stream, &mut probe).is_ok());
    check_eq!(probe.delivered, 5);
    Ok(())
}

//= 5040-7.2-1, 5041-5.4-1, 5041-5.4-1b, 5041-7.1-1c
/// s7.1: "The MO falls in the range of legal offsets associated with the Untagged Buffer."
pub(crate) fn mo_out_of_sequence() -> Outcome {
    for mo in [0, 1, 3, u32::MAX] {
        let stream = Wire::new()
            .bytes(fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1, 2])).get())
            .bytes(fpdu(&untagged(LAST, op::SEND, 0, 1, mo, &[3])).get());
        let mut probe = Probe::new();
        check_eq!(code(&stream, &mut probe), Some(TermCode::INVALID_MO));
        check_eq!(probe.placed, 2);
    }
    Ok(())
}

//= 5040-7.2-6, 5041-4.3-13
/// s4.3: "The MO referencing the first octet of the DDP Message MUST be set to zero".
pub(crate) fn mo_nonzero_first() -> Outcome {
    for (control, qn) in [(op::SEND, 0), (op::READ_REQUEST, 1), (op::TERMINATE, 2)] {
        let stream = fpdu(&untagged(LAST, control, qn, 1, 4, &[0; 28]));
        let got = code(&stream, &mut Probe::new());
        check_eq!(got, Some(TermCode::INVALID_MO));
    }
    Ok(())
}

//= 5041-7.1-3, 5041-7.1-4
/// s7.1: "If the DDP layer detects any of the receive errors listed in this section, it MUST cease
/// placing the remainder of the DDP Segment [...]. DDP MUST silently drop any subsequent incoming
/// DDP Segments."
pub(crate) fn refused_segment_is_not_placed() -> Outcome {
    let stream = Wire::new()
        .bytes(write(1, 2, &[1, 2, 3, 4, 5]).get())
        .bytes(send(1, &[6]).get());
    let mut probe = Probe::refusing(Call::Begin, Refusal::Bounds);
    check_eq!(code(&stream, &mut probe), Some(TermCode::TAGGED_BOUNDS));
    check_eq!((probe.begun, probe.placed, probe.delivered), (0, 0, 0));
    Ok(())
}

//= 5041-7.1-3
/// The same if the error occurs during placement: for instance, the buffer is gone.
pub(crate) fn refused_half_way() -> Outcome {
    let stream = write(1, 2, &[1, 2, 3, 4, 5]);
    let mut rx = receiver();
    let mut probe = Probe::new();
    let (front, back) = stream.get().split_at(18);
    check!(receive(&mut rx, front, &mut probe).is_ok());
    check_eq!(probe.placed, 2);
    probe.refuse = Some((Call::Place, Refusal::NotAssociated));
    let fault = receive(&mut rx, back, &mut probe).err();
    check_eq!(
        fault.and_then(|f| f.term()),
        Some(TermCode::TAGGED_NOT_ASSOCIATED)
    );
    check_eq!((probe.placed, probe.ended, probe.delivered), (2, 0, 0));
    Ok(())
}

/// A handler may also refuse the end of a segment.
pub(crate) fn refused_end_of_segment() -> Outcome {
    let mut probe = Probe::refusing(Call::End, Refusal::Local);
    let mut rx = Receiver::new(RxConfig { crc: false });
    let fault = receive(&mut rx, send(1, &[1]).get(), &mut probe).err();
    check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Local));
    check_eq!(probe.delivered, 0);
    Ok(())
}
