// SPDX-License-Identifier: GPL-2.0

//! RDMA Read: Requests and Responses (RFC 5040).

use super::*;

cases! { rsiw_iwarp_rules_read:
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
