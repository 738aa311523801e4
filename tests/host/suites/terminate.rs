// SPDX-License-Identifier: GPL-2.0

//! Terminate Headers: which headers they include, and their layout (RFC 5040 s4.8, s7.1).

use iwarp::rdmap::Layer;
use iwarp::rx::{Event, Refusal};
use iwarp::tx::{Message, Segmenter};
use iwarp::{Msn, ReadRequest, Stag, TaggedOffset, TermCode, Terminate};

use super::probe::{receive, receiver, terminate_for, verdict, Call, Probe};
use super::wire::{
    fpdu, op, read_header, read_request, send, tagged, terminate, untagged, untagged_inv, write,
    Wire, LAST, TAGGED_LAST,
};
use super::Outcome;

cases! { rsiw_iwarp_terminate:
    code_numbers
    code_texts
    ddp_error_untagged
    ddp_error_tagged
    number_of_a_send
    protection_error_of_read
    protection_error_of_invalidate
    operation_error
    operation_error_of_read
    llp_error_has_no_header
    local_error_has_no_header
    read_in_progress
    first_error_is_captured
    of_siw
    round_trip
    reserved_bits_of_terminate
    length_without_header
    only_what_is_announced
    fits_smallest_mulpdu
}

/// The Terminate Header that the engine sends.
fn encoded(term: Option<Terminate>) -> Wire {
    let Some(term) = term else {
        return Wire::new();
    };
    let mut segmenter = Segmenter::new(Message::Terminate { term }, 0);
    match segmenter.next(128) {
        Some(segment) => Wire::new().bytes(segment.header().get(20..).unwrap_or_default()),
        None => Wire::new(),
    }
}

//= 5040-4.8-3, 5041-7.2-1, 6581-9.1-6, 6581-9.2-9
/// Figure 9 of RFC 5040, s7.2 of RFC 5041, s8 of RFC 5044, s8 of RFC 6581.
pub(crate) fn code_numbers() -> Outcome {
    for (code, layer, etype, number) in [
        (TermCode::LOCAL_CATASTROPHIC, Layer::Rdmap, 0, 0x00),
        (TermCode::READ_INVALID_STAG, Layer::Rdmap, 1, 0x00),
        (TermCode::READ_BOUNDS, Layer::Rdmap, 1, 0x01),
        (TermCode::READ_ACCESS, Layer::Rdmap, 1, 0x02),
        (TermCode::READ_NOT_ASSOCIATED, Layer::Rdmap, 1, 0x03),
        (TermCode::READ_TO_WRAP, Layer::Rdmap, 1, 0x04),
        (TermCode::CANNOT_INVALIDATE, Layer::Rdmap, 1, 0x09),
        (TermCode::PROTECTION_UNSPECIFIED, Layer::Rdmap, 1, 0xff),
        (TermCode::RDMAP_VERSION, Layer::Rdmap, 2, 0x05),
        (TermCode::UNEXPECTED_OPCODE, Layer::Rdmap, 2, 0x06),
        (TermCode::CATASTROPHIC_STREAM, Layer::Rdmap, 2, 0x07),
        (TermCode::CATASTROPHIC_GLOBAL, Layer::Rdmap, 2, 0x08),
        (TermCode::OPERATION_CANNOT_INVALIDATE, Layer::Rdmap, 2, 0x09),
        (TermCode::OPERATION_UNSPECIFIED, Layer::Rdmap, 2, 0xff),
        (TermCode::DDP_CATASTROPHIC, Layer::Ddp, 0, 0x00),
        (TermCode::TAGGED_INVALID_STAG, Layer::Ddp, 1, 0x00),
        (TermCode::TAGGED_BOUNDS, Layer::Ddp, 1, 0x01),
        (TermCode::TAGGED_NOT_ASSOCIATED, Layer::Ddp, 1, 0x02),
        (TermCode::TAGGED_TO_WRAP, Layer::Ddp, 1, 0x03),
        (TermCode::TAGGED_VERSION, Layer::Ddp, 1, 0x04),
        (TermCode::INVALID_QN, Layer::Ddp, 2, 0x01),
        (TermCode::NO_BUFFER, Layer::Ddp, 2, 0x02),
        (TermCode::MSN_RANGE, Layer::Ddp, 2, 0x03),
        (TermCode::INVALID_MO, Layer::Ddp, 2, 0x04),
        (TermCode::MESSAGE_TOO_LONG, Layer::Ddp, 2, 0x05),
        (TermCode::UNTAGGED_VERSION, Layer::Ddp, 2, 0x06),
        (TermCode::MPA_CONNECTION_LOST, Layer::Llp, 0, 0x01),
        (TermCode::MPA_CRC, Layer::Llp, 0, 0x02),
        (TermCode::MPA_FPDU_START, Layer::Llp, 0, 0x03),
        (TermCode::MPA_INVALID_FRAME, Layer::Llp, 0, 0x04),
        (TermCode::MPA_LOCAL_CATASTROPHIC, Layer::Llp, 0, 0x05),
        (TermCode::MPA_INSUFFICIENT_IRD, Layer::Llp, 0, 0x06),
        (TermCode::MPA_NO_MATCHING_RTR, Layer::Llp, 0, 0x07),
    ] {
        check_eq!(code.layer(), layer);
        check_eq!((code.etype(), code.code()), (etype, number));
    }
    check_eq!(TermCode::ALL.len(), 33);
    Ok(())
}

/// Each code has one name.
pub(crate) fn code_texts() -> Outcome {
    for (code, text) in TermCode::ALL {
        check_eq!(code.text(), *text);
        check!(!text.is_empty());
    }
    check_eq!(TermCode::new(7, 1, 2).text(), "unknown error");
    check_eq!(TermCode::new(0, 0, 0x33).text(), "local catastrophic error");
    check_eq!(TermCode::new(7, 1, 2).layer(), Layer::Other(7));
    Ok(())
}

//= 5040-4.8-2, 5040-4.8-4, 5040-4.8-5, 5040-4.8-7, 5040-7.1-2
/// Figure 10: DDP errors include DDP header and length: M and D.
pub(crate) fn ddp_error_untagged() -> Outcome {
    let ulpdu = untagged(LAST, op::SEND, 0, 5, 0, &[1, 2, 3]);
    let got = encoded(terminate_for(&fpdu(&ulpdu), &mut Probe::new()));
    let expected = Wire::new()
        .bytes(&[0x12, 0x03, 0xc0, 0x00])
        .u16(21)
        .bytes(&ulpdu.get()[..18]);
    check_eq!(got.get(), expected.get());
    Ok(())
}

//= 5040-4.8-6, 5040-4.8-7
/// s4.8: "Terminated DDP Header: 112 bits for Tagged Messages".
pub(crate) fn ddp_error_tagged() -> Outcome {
    let ulpdu = tagged(TAGGED_LAST, op::WRITE, 0xaabb_ccdd, 0x99, &[1, 2]);
    let mut probe = Probe::refusing(Call::Begin, Refusal::Bounds);
    let got = encoded(terminate_for(&fpdu(&ulpdu), &mut probe));
    let expected = Wire::new()
        .bytes(&[0x11, 0x01, 0xc0, 0x00])
        .u16(16)
        .bytes(&ulpdu.get()[..14]);
    check_eq!(got.get(), expected.get());
    Ok(())
}

/// The header of a Send tells its number; that of a Write has none, nor has that of a Read.
pub(crate) fn number_of_a_send() -> Outcome {
    let none = &mut Probe::refusing(Call::Begin, Refusal::NoBuffer);
    let term = terminate_for(&send(1, &[1, 2, 3]), none);
    check_eq!(term.map(|t| t.code()), Some(TermCode::NO_BUFFER));
    check_eq!(term.and_then(|t| t.send_msn()), Some(Msn(1)));
    let bounds = &mut Probe::refusing(Call::Begin, Refusal::Bounds);
    let term = terminate_for(&write(1, 2, &[3]), bounds);
    check_eq!(term.map(|t| t.send_msn()), Some(None));
    let bounds = &mut Probe::refusing(Call::Deliver, Refusal::Bounds);
    let term = terminate_for(&read_request(1, &read_header(1, 2, 3, 4, 5)), bounds);
    check_eq!(term.map(|t| t.send_msn()), Some(None));
    check_eq!(Terminate::new(TermCode::NO_BUFFER).send_msn(), None);
    Ok(())
}

//= 5040-4.8-1, 5040-4.8-8, 5040-7.1-2
/// Figure 10: Remote Protection Errors of a Read Request include its header as well: M, D and R.
pub(crate) fn protection_error_of_read() -> Outcome {
    let header = read_header(1, 2, 3, 4, 5);
    let mut probe = Probe::refusing(Call::Deliver, Refusal::Access);
    let got = encoded(terminate_for(&read_request(1, &header), &mut probe));
    let expected = Wire::new()
        .bytes(&[0x01, 0x02, 0xe0, 0x00])
        .u16(46)
        .bytes(untagged(LAST, op::READ_REQUEST, 1, 1, 0, &[]).get())
        .bytes(header.get());
    check_eq!(got.get(), expected.get());
    check_eq!(got.len(), 52);
    Ok(())
}

/// s4.8: "The Terminated RDMA Header is only sent back if the terminate is associated with an RDMA
/// Read Request Message."
pub(crate) fn protection_error_of_invalidate() -> Outcome {
    let ulpdu = untagged_inv(LAST, op::SEND_INV, 7, 0, 1, 0, &[9]);
    let mut probe = Probe::refusing(Call::Deliver, Refusal::CannotInvalidate);
    let got = encoded(terminate_for(&fpdu(&ulpdu), &mut probe));
    let expected = Wire::new()
        .bytes(&[0x01, 0x09, 0xc0, 0x00])
        .u16(19)
        .bytes(&ulpdu.get()[..18]);
    check_eq!(got.get(), expected.get());
    Ok(())
}

/// Figure 10: Remote Operation Errors include the DDP header, "if possible".
pub(crate) fn operation_error() -> Outcome {
    let ulpdu = untagged(LAST, 0x4f, 0, 1, 0, &[1]);
    let got = encoded(terminate_for(&fpdu(&ulpdu), &mut Probe::new()));
    let expected = Wire::new()
        .bytes(&[0x02, 0x06, 0xc0, 0x00])
        .u16(19)
        .bytes(&ulpdu.get()[..18]);
    check_eq!(got.get(), expected.get());
    Ok(())
}

/// Figure 10: a Remote Operation Error of a Read Request does not include the Read Request's
/// header.
pub(crate) fn operation_error_of_read() -> Outcome {
    let ulpdu = untagged(LAST, op::READ_REQUEST, 1, 1, 0, &[0; 27]);
    let got = encoded(terminate_for(&fpdu(&ulpdu), &mut Probe::new()));
    let expected = Wire::new()
        .bytes(&[0x02, 0xff, 0xc0, 0x00])
        .u16(45)
        .bytes(&ulpdu.get()[..18]);
    check_eq!(got.get(), expected.get());
    Ok(())
}

//= 5044-8-4
/// Figure 10: LLP errors include nothing.
pub(crate) fn llp_error_has_no_header() -> Outcome {
    let good = send(1, &[1]);
    let bad = good.clone().flip(good.len() - 1, 0);
    let got = encoded(terminate_for(&bad, &mut Probe::new()));
    check_eq!(got.get(), &[0x20, 0x02, 0, 0]);
    Ok(())
}

//= 5040-7.1-2
/// s4.8: "The DDP Header is not present if the Terminate Error Type is a Local Catastrophic Error."
pub(crate) fn local_error_has_no_header() -> Outcome {
    let mut probe = Probe::refusing(Call::Place, Refusal::Local);
    let got = encoded(terminate_for(&send(1, &[1]), &mut probe));
    check_eq!(got.get(), &[0, 0, 0, 0]);
    check_eq!(
        encoded(Some(Terminate::new(TermCode::DDP_CATASTROPHIC))).get(),
        &[0x10, 0, 0, 0]
    );
    Ok(())
}

//= 5040-7.1-2
/// s4.8: "if the RDMA Read Request was terminated after 2048 octets were sent, then the Data Sink
/// Tagged Offset = the original Data Sink Tagged Offset + 2048", and so on.
pub(crate) fn read_in_progress() -> Outcome {
    let req = ReadRequest {
        sink_stag: Stag(1),
        sink_to: TaggedOffset(1000),
        len: 10_000,
        src_stag: Stag(2),
        src_to: TaggedOffset(5000),
    };
    let term = Terminate::for_read_request(TermCode::READ_INVALID_STAG, Msn(9), &req, 2048);
    let expected = Wire::new()
        .bytes(&[0x01, 0x00, 0xe0, 0x00])
        .u16(46)
        .bytes(untagged(LAST, op::READ_REQUEST, 1, 9, 0, &[]).get())
        .bytes(read_header(1, 3048, 7952, 2, 7048).get());
    check_eq!(encoded(Some(term)).get(), expected.get());
    check_eq!(req.after(u32::MAX).len, 0);
    // A local error does not refer to the request.
    let local = Terminate::for_read_request(TermCode::LOCAL_CATASTROPHIC, Msn(9), &req, 1);
    check_eq!(encoded(Some(local)).get(), &[0, 0, 0, 0]);
    Ok(())
}

//= 5040-7.1-3
/// s7.1 case 4: "the first RDMA Message (and its associated DDP Segment) that experienced an error
/// MUST be captured by the Terminate Message".
pub(crate) fn first_error_is_captured() -> Outcome {
    let first = untagged(LAST, op::SEND, 0, 7, 0, &[1]);
    let second = tagged(TAGGED_LAST, op::SEND, 1, 2, &[3]);
    let stream = fpdu(&first).bytes(fpdu(&second).get());
    let mut rx = receiver();
    let fault = receive(&mut rx, stream.get(), &mut Probe::new()).err();
    check!(fault.is_some());
    let again = receive(&mut rx, stream.get(), &mut Probe::new()).err();
    check_eq!(again, fault);
    let term = fault.and_then(|f| rx.terminate_for(&f));
    let header = term.as_ref().and_then(|t| t.ddp_header());
    check_eq!(header, Some(&first.get()[..18]));
    Ok(())
}

/// A Terminate that one engine sends is reported unchanged by the peer's.
pub(crate) fn round_trip() -> Outcome {
    let mut term_of_write = Probe::refusing(Call::Begin, Refusal::Wrap);
    let mut term_of_read = Probe::refusing(Call::Deliver, Refusal::Bounds);
    for term in [
        Some(Terminate::new(TermCode::MPA_NO_MATCHING_RTR)),
        terminate_for(&write(1, 2, &[3]), &mut term_of_write),
        terminate_for(
            &read_request(1, &read_header(1, 2, 3, 4, 5)),
            &mut term_of_read,
        ),
    ] {
        let stream = terminate(&encoded(term));
        let mut probe = Probe::new();
        check!(verdict(&stream, &mut probe).is_ok());
        let Some(Event::Terminate(got)) = probe.event else {
            check!(false);
            return Ok(());
        };
        check_eq!(Some(got.code()), term.map(|t| t.code()));
        check_eq!(Some(got.segment_length()), term.map(|t| t.segment_length()));
        check_eq!(got.ddp_header(), term.as_ref().and_then(|t| t.ddp_header()));
        check_eq!(got.read_request(), term.and_then(|t| t.read_request()));
    }
    Ok(())
}

//= 5040-4.8-4
/// s4.8: "Reserved: 13 bits. This field MUST be set to zero on transmit, ignored on receive."
pub(crate) fn reserved_bits_of_terminate() -> Outcome {
    let stream = terminate(&Wire::new().bytes(&[0x12, 0x05, 0x1f, 0xff]));
    let mut probe = Probe::new();
    check!(verdict(&stream, &mut probe).is_ok());
    let Some(Event::Terminate(got)) = probe.event else {
        check!(false);
        return Ok(());
    };
    check_eq!(got, Terminate::new(TermCode::MESSAGE_TOO_LONG));
    Ok(())
}

/// What siw sends, on a little-endian processor: the fields of each byte are in reverse order.
pub(crate) fn of_siw() -> Outcome {
    let request = untagged(LAST, op::ATOMIC_REQUEST, 1, 7, 0, &[0; 28]);
    let cases: [(&[u8], TermCode, bool); 7] = [
        (&[0x20, 6, 3, 0], TermCode::UNEXPECTED_OPCODE, true),
        (&[0x10, 2, 3, 0], TermCode::READ_ACCESS, true),
        (&[0x11, 0, 3, 0], TermCode::TAGGED_INVALID_STAG, true),
        (&[0x21, 2, 3, 0], TermCode::NO_BUFFER, true),
        // Of a Read, the number is none.
        (&[0x10, 2, 7, 0], TermCode::READ_ACCESS, false),
        (&[0x02, 2, 0, 0], TermCode::MPA_CRC, false),
        // What may come from others stays what it is.
        (&[0x20, 6, 0, 0], TermCode::MPA_INSUFFICIENT_IRD, false),
    ];
    for (control, code, has_number) in cases {
        let header = Wire::new().bytes(control).u16(36).bytes(request.get());
        let mut probe = Probe::new();
        check!(verdict(&terminate(&header), &mut probe).is_ok());
        let Some(Event::Terminate(got)) = probe.event else {
            check!(false);
            return Ok(());
        };
        check_eq!(got.code(), code);
        check_eq!(got.read_msn(), has_number.then_some(Msn(7)));
        check_eq!(got.read_request().is_some(), control[2] == 7);
    }
    Ok(())
}

//= 5040-4.8-5, 5040-4.8-6
/// s4.8: the length "MUST be present when the D bit is set", and "valid if the M bit is set": each
/// of the bits may come alone.
pub(crate) fn length_without_header() -> Outcome {
    let m_only = terminate(&Wire::new().bytes(&[0x12, 0x05, 0x80, 0]).u16(77));
    let mut probe = Probe::new();
    check!(verdict(&m_only, &mut probe).is_ok());
    let Some(Event::Terminate(got)) = probe.event else {
        check!(false);
        return Ok(());
    };
    check_eq!(got.segment_length(), Some(77));
    check!(got.ddp_header().is_none());

    let ddp = tagged(TAGGED_LAST, op::WRITE, 1, 2, &[]);
    let header = Wire::new().bytes(&[0x11, 0, 0x40, 0]).u16(77);
    let mut probe = Probe::new();
    check!(verdict(&terminate(&header.bytes(ddp.get())), &mut probe).is_ok());
    let Some(Event::Terminate(got)) = probe.event else {
        check!(false);
        return Ok(());
    };
    check_eq!(got.segment_length(), None);
    check_eq!(got.ddp_header(), Some(ddp.get()));
    Ok(())
}

/// s4.8: the HdrCt bits decide which headers are present, not the number of bytes that follow.
pub(crate) fn only_what_is_announced() -> Outcome {
    for hdrct in 0..8u8 {
        let header = Wire::new()
            .bytes(&[0x01, 0x01, hdrct << 5, 0])
            .fill(0x41, 56);
        let mut probe = Probe::new();
        check!(verdict(&terminate(&header), &mut probe).is_ok());
        let Some(Event::Terminate(got)) = probe.event else {
            check!(false);
            return Ok(());
        };
        check_eq!(got.segment_length().is_some(), hdrct & 4 != 0);
        check_eq!(got.ddp_header().is_some(), hdrct & 2 != 0);
        check_eq!(got.read_request().is_some(), hdrct & 1 != 0);
    }
    Ok(())
}

/// RFC 5044 s4.5: 128 bytes are enough for any header.
pub(crate) fn fits_smallest_mulpdu() -> Outcome {
    let req = ReadRequest::default();
    let term = Terminate::for_read_request(TermCode::READ_BOUNDS, Msn(1), &req, 0);
    let mut segmenter = Segmenter::new(Message::Terminate { term }, 0);
    let segment = segmenter.next(128);
    check_eq!(segment.map(|s| s.ulpdu_len()), Some(18 + 52));
    check!(segmenter.done());
    Ok(())
}
