// SPDX-License-Identifier: GPL-2.0

//! FPDUs: boundaries, pad, CRC, and the state after an error (RFC 5044 s4, s6, s8).

use iwarp::rx::{Event, FaultKind, Receiver, Refusal, RxConfig};
use iwarp::TermCode;

use super::probe::{code, receive, receiver, verdict, Call, Probe};
use super::wire::{
    crc32c, fpdu, op, send, tagged, untagged, write, Wire, LAST, MORE, TAGGED_LAST, TAGGED_MORE,
};
use super::Outcome;

cases! { rsiw_iwarp_rules_mpa:
    every_pad_length
    header_in_single_bytes
    several_fpdus_in_one_piece
    pad_value_ignored_but_in_crc
    crc_mismatch
    crc_mismatch_places_nothing
    crc_mismatch_delivers_nothing
    crc_mismatch_in_middle_segment
    crc_off_not_checked
    crc_outranks_header_fault
    header_fault_waits_for_crc
    header_fault_at_once_without_crc
    local_refusal_at_once
    ulpdu_too_long
    ulpdu_longest
    ulpdu_too_short
    nothing_after_a_fault
    boundaries
    figure_5_without_marker
}

fn event_len(probe: &Probe) -> Option<u32> {
    match probe.event {
        Some(Event::Recv { len, .. }) => Some(len),
        _ => None,
    }
}

//= 5041-3-8, 5044-3-6, 5044-4.3-11
/// s4.1: the pad makes the FPDU a multiple of four bytes.
pub(crate) fn every_pad_length() -> Outcome {
    for len in 0..=9u8 {
        let mut probe = Probe::new();
        let payload = Wire::new().fill(len, usize::from(len));
        check!(verdict(&send(1, payload.get()), &mut probe).is_ok());
        check_eq!(event_len(&probe), Some(u32::from(len)));
        check_eq!(probe.data.get(), payload.get());
    }
    Ok(())
}

//= 5044-5.1-1
/// A receiver finds FPDUs "even if alignment is lost" (s5.1).
pub(crate) fn header_in_single_bytes() -> Outcome {
    let stream = Wire::new()
        .bytes(send(1, &[1, 2, 3]).get())
        .bytes(write(7, 9, &[4, 5]).get())
        .bytes(send(2, &[]).get());
    let mut probe = Probe::new();
    let mut rx = receiver();
    for byte in stream.get() {
        check!(receive(&mut rx, &[*byte], &mut probe).is_ok());
    }
    check_eq!(probe.delivered, 3);
    check_eq!(probe.data.get(), &[1, 2, 3, 4, 5]);
    check!(rx.at_boundary());
    Ok(())
}

//= 5044-4.3-10, 5044-5.2-1, 5044-6-2
/// s5.1: "Multiple FPDUs MAY be packed into a single TCP segment".
pub(crate) fn several_fpdus_in_one_piece() -> Outcome {
    let mut probe = Probe::new();
    let stream = Wire::new()
        .bytes(send(1, &[1]).get())
        .bytes(send(2, &[2, 2]).get())
        .bytes(send(3, &[3, 3, 3]).get());
    check!(verdict(&stream, &mut probe).is_ok());
    check_eq!(probe.delivered, 3);
    check_eq!(event_len(&probe), Some(3));
    Ok(())
}

//= 5044-4.1-2
/// s4.1: "The pad data MUST be set to zero by the sender and ignored by the receiver (except for
/// CRC checking)."
pub(crate) fn pad_value_ignored_but_in_crc() -> Outcome {
    // 18 bytes of header and 1 of payload: 3 bytes of pad.
    let body = Wire::new()
        .u16(19)
        .bytes(untagged(LAST, op::SEND, 0, 1, 0, &[5]).get())
        .bytes(&[0xaa, 0xbb, 0xcc]);
    let crc = !crc32c(!0, body.get());
    let good = body.clone().bytes(&crc.to_le_bytes());
    check!(verdict(&good, &mut Probe::new()).is_ok());

    let without_pad = !crc32c(!0, &body.get()[..21]);
    let bad = body.bytes(&without_pad.to_le_bytes());
    check_eq!(code(&bad, &mut Probe::new()), Some(TermCode::MPA_CRC));
    Ok(())
}

//= 5041-3-7, 5044-4.4-1, 5044-4.4-10, 5044-6-2, 5044-8-1
/// s4.4: "Verify that the calculated CRC-32c value is the same as the received".
pub(crate) fn crc_mismatch() -> Outcome {
    let good = send(1, &[1, 2, 3, 4, 5, 6]);
    for at in 0..good.len() {
        // Inverting a high bit of the length only makes the receiver wait for more.
        if at > 1 {
            let fault = verdict(&good.clone().flip(at, 3), &mut Probe::new()).err();
            check!(fault.is_some());
            check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Crc));
        }
    }
    Ok(())
}

//= 5044-3-6, 5044-4.4-10, 5044-6-1
/// s6: "An MPA receiver MUST first verify the FPDU before passing the ULPDU to DDP." This holds if
/// the whole FPDU is available when the receiver parses the header, even if a part of the header
/// came earlier.
pub(crate) fn crc_mismatch_places_nothing() -> Outcome {
    for good in [send(1, &[1, 2, 3, 4, 5]), write(7, 9, &[1, 2])] {
        let bad = good.clone().flip(good.len() - 1, 0);
        let header = if good.get()[2] & 0x80 != 0 { 16 } else { 20 };
        for cut in 0..=header {
            let (front, rest) = bad.get().split_at(cut);
            let (mut rx, mut probe) = (receiver(), Probe::new());
            // The receiver parses the header when its last byte arrives: with `rest`, unless
            // `front` is the whole header.
            let early = receive(&mut rx, front, &mut probe);
            check!(early.is_ok());
            let fault = receive(&mut rx, rest, &mut probe).err();
            check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Crc));
            check_eq!(probe.begun, u32::from(cut == header));
            let placed = if cut == header {
                u32::from(good.get()[1]) + 2 - header as u32
            } else {
                0
            };
            check_eq!(probe.placed, placed);
            check_eq!(probe.delivered, 0);
        }
    }
    Ok(())
}

//= 5040-5.5-3, 5040-5.5-7, 5044-4.4-11, 5044-6-1
/// The same for an FPDU in pieces: earlier pieces have been placed when the CRC arrives, but
/// nothing is delivered.
pub(crate) fn crc_mismatch_delivers_nothing() -> Outcome {
    let mut probe = Probe::new();
    let bad = send(1, &[1, 2, 3, 4]);
    let bad = bad.clone().flip(bad.len() - 1, 0);
    let (front, last) = bad.get().split_at(bad.len() - 1);
    let mut rx = receiver();
    check!(receive(&mut rx, front, &mut probe).is_ok());
    let fault = receive(&mut rx, last, &mut probe).err();
    check_eq!(fault.and_then(|f| f.term()), Some(TermCode::MPA_CRC));
    check_eq!(probe.placed, 4);
    check_eq!(probe.ended, 0);
    check_eq!(probe.delivered, 0);
    Ok(())
}

//= 5041-5.4-1b
/// A good last segment does not make up for a bad one before it.
pub(crate) fn crc_mismatch_in_middle_segment() -> Outcome {
    let first = fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1, 2]));
    let stream = Wire::new()
        .bytes(first.clone().flip(first.len() - 1, 7).get())
        .bytes(fpdu(&untagged(LAST, op::SEND, 0, 1, 2, &[3, 4])).get());
    let mut probe = Probe::new();
    check_eq!(code(&stream, &mut probe), Some(TermCode::MPA_CRC));
    check_eq!(probe.delivered, 0);
    check_eq!(probe.placed, 0);
    Ok(())
}

//= 5044-4.1-3, 5044-4.4-6, 5044-7.1.1-10, 5044-7.1.1-12
/// s4.1: "When CRCs are not enabled, this field is still present, may contain any value, and MUST
/// NOT be checked."
pub(crate) fn crc_off_not_checked() -> Outcome {
    let good = send(1, &[1, 2, 3]);
    let stream = good.clone().flip(good.len() - 2, 4);
    let mut probe = Probe::new();
    let mut rx = Receiver::new(RxConfig { crc: false });
    check!(receive(&mut rx, stream.get(), &mut probe).is_ok());
    check_eq!(event_len(&probe), Some(3));
    Ok(())
}

//= 5044-6-1
/// A wrong CRC outranks a header fault: the damage may have caused the fault, so it is not reported
/// as a DDP error of the peer.
pub(crate) fn crc_outranks_header_fault() -> Outcome {
    let bad_qn = fpdu(&untagged(LAST, op::SEND, 9, 1, 0, &[1, 2, 3, 4, 5]));
    check_eq!(code(&bad_qn, &mut Probe::new()), Some(TermCode::INVALID_QN));
    let damaged = bad_qn.clone().flip(bad_qn.len() - 1, 0);
    check_eq!(code(&damaged, &mut Probe::new()), Some(TermCode::MPA_CRC));
    Ok(())
}

//= 5044-6-4
/// After a header fault the receiver waits for the FPDU's CRC, and places no payload.
pub(crate) fn header_fault_waits_for_crc() -> Outcome {
    let bad_qn = fpdu(&untagged(LAST, op::SEND, 9, 1, 0, &[1, 2, 3, 4, 5]));
    let mut probe = Probe::new();
    let mut rx = receiver();
    let (last, all) = bad_qn.get().split_last().unwrap_or((&0, &[]));
    for byte in all {
        check!(receive(&mut rx, &[*byte], &mut probe).is_ok());
    }
    check!(!rx.at_boundary());
    check!(receive(&mut rx, &[*last], &mut probe).is_err());
    check_eq!(probe.begun, 0);
    check_eq!(probe.placed, 0);
    Ok(())
}

/// Without CRCs the receiver reports a header fault at once.
pub(crate) fn header_fault_at_once_without_crc() -> Outcome {
    let bad_qn = fpdu(&untagged(LAST, op::SEND, 9, 1, 0, &[1, 2, 3, 4, 5]));
    let mut rx = Receiver::new(RxConfig { crc: false });
    let header = bad_qn.get().get(..20).unwrap_or_default();
    let fault = receive(&mut rx, header, &mut Probe::new()).err();
    check_eq!(fault.and_then(|f| f.term()), Some(TermCode::INVALID_QN));
    Ok(())
}

/// The receiver reports a local error at once: the CRC does not matter to it.
pub(crate) fn local_refusal_at_once() -> Outcome {
    let stream = send(1, &[1, 2, 3, 4]);
    let mut probe = Probe::refusing(Call::Place, Refusal::Local);
    let mut rx = receiver();
    let fault = receive(&mut rx, &stream.get()[..22], &mut probe).err();
    check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Local));
    Ok(())
}

//= 5044-3-4
/// s3: "The sending DDP MUST NOT post a ULPDU larger than 64768 octets to MPA."
pub(crate) fn ulpdu_too_long() -> Outcome {
    let mut rx = receiver();
    let mut probe = Probe::new();
    let head = Wire::new()
        .u16(64769)
        .bytes(untagged(LAST, op::SEND, 0, 1, 0, &[]).get());
    let mut crc = crc32c(!0, head.get());
    check!(receive(&mut rx, head.get(), &mut probe).is_ok());
    // The rest of the ULPDU and 1 byte of pad.
    let chunk = [0; 64];
    for _ in 0..(64769 - 18 + 1) / 64 {
        crc = crc32c(crc, &chunk);
        check!(receive(&mut rx, &chunk, &mut probe).is_ok());
    }
    let rest = (64769 - 18 + 1) % 64;
    crc = crc32c(crc, &chunk[..rest]);
    check!(receive(&mut rx, &chunk[..rest], &mut probe).is_ok());
    let fault = receive(&mut rx, &(!crc).to_le_bytes(), &mut probe).err();
    check_eq!(fault.map(|f| f.kind()), Some(FaultKind::Framing));
    check_eq!(fault.and_then(|f| f.term()), Some(TermCode::MPA_FPDU_START));
    check_eq!(probe.begun, 0);
    Ok(())
}

/// 64768 bytes are legal.
pub(crate) fn ulpdu_longest() -> Outcome {
    let mut rx = Receiver::new(RxConfig { crc: false });
    let mut probe = Probe::new();
    let head = Wire::new()
        .u16(64768)
        .bytes(tagged(TAGGED_LAST, op::WRITE, 1, 0, &[]).get());
    check!(receive(&mut rx, head.get(), &mut probe).is_ok());
    let chunk = [0; 67];
    // 64754 bytes of payload, 2 of pad, 4 of CRC.
    let mut left = 64754 + 2 + 4;
    while left != 0 {
        let n = left.min(chunk.len());
        check!(receive(&mut rx, &chunk[..n], &mut probe).is_ok());
        left -= n;
    }
    check_eq!(probe.placed, 64754);
    check_eq!(probe.event, Some(Event::Write { len: 64754 }));
    check!(rx.at_boundary());
    Ok(())
}

//= 5041-4.4-1
/// A ULPDU that ends inside its DDP header.
pub(crate) fn ulpdu_too_short() -> Outcome {
    for len in 0..18usize {
        for (first, min) in [(LAST, 18), (TAGGED_LAST, 14)] {
            let ulpdu = Wire::new().u8(first).u8(op::SEND).fill(0, 16);
            let ulpdu = Wire::new().bytes(&ulpdu.get()[..len]);
            let stream = fpdu(&ulpdu);
            let got = verdict(&stream, &mut Probe::new()).err();
            if len < min {
                check_eq!(got.map(|f| f.kind()), Some(FaultKind::Framing));
            }
            // The same byte by byte; the receiver must not consume the next FPDU.
            let mut rx = receiver();
            let mut probe = Probe::new();
            let mut result = Ok(0);
            for byte in stream.clone().bytes(send(1, &[]).get()).get() {
                result = receive(&mut rx, &[*byte], &mut probe);
            }
            if len < min {
                check_eq!(result.err().map(|f| f.kind()), Some(FaultKind::Framing));
                check_eq!(probe.delivered, 0);
            }
        }
    }
    Ok(())
}

//= 5040-7-1, 5041-7.1-4, 5044-8-3
/// s8: "Once MPA delivers an error of any type, it MUST NOT pass or deliver any additional FPDUs on
/// that half connection."
pub(crate) fn nothing_after_a_fault() -> Outcome {
    let good = send(1, &[1, 2, 3, 4]);
    let mut rx = receiver();
    let mut probe = Probe::new();
    let bad = good.clone().flip(good.len() - 1, 1);
    let fault = receive(&mut rx, bad.get(), &mut probe).err();
    check!(fault.is_some());
    let placed = probe.placed;
    check_eq!(receive(&mut rx, good.get(), &mut probe).err(), fault);
    check_eq!(receive(&mut rx, &[], &mut probe).err(), fault);
    check_eq!(probe.delivered, 0);
    check_eq!(probe.placed, placed);
    check!(!rx.at_boundary());
    Ok(())
}

//= 5041-3-10, 5041-3-11, 5044-6-4
/// `at_boundary` and `mid_message`: where a FIN truncates nothing.
pub(crate) fn boundaries() -> Outcome {
    let stream = fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1, 2, 3]));
    let mut rx = receiver();
    let mut probe = Probe::new();
    check!(rx.at_boundary());
    check!(!rx.mid_message());
    for (i, byte) in stream.get().iter().enumerate() {
        check!(receive(&mut rx, &[*byte], &mut probe).is_ok());
        check_eq!(rx.at_boundary(), i + 1 == stream.len());
    }
    check!(rx.mid_message());
    let last = fpdu(&untagged(LAST, op::SEND, 0, 1, 3, &[]));
    check!(receive(&mut rx, last.get(), &mut probe).is_ok());
    check!(rx.at_boundary());
    check!(!rx.mid_message());
    // A Terminate ends the stream anywhere, also in the middle of a Write or a Send.
    let begun = [
        fpdu(&tagged(TAGGED_MORE, op::WRITE, 5, 100, &[1, 2])),
        fpdu(&untagged(MORE, op::SEND, 0, 1, 0, &[1, 2, 3])),
    ];
    let terminate = fpdu(&untagged(LAST, op::TERMINATE, 2, 1, 0, &[0x20, 2, 0, 0]));
    for message in begun {
        let mut rx = receiver();
        check!(receive(&mut rx, message.get(), &mut probe).is_ok());
        check!(rx.mid_message());
        check!(receive(&mut rx, terminate.get(), &mut probe).is_ok());
        check!(rx.at_boundary());
        check!(!rx.mid_message());
    }
    Ok(())
}

/// The FPDU of Figure 5 without its marker, which the CRC then does not cover.
pub(crate) fn figure_5_without_marker() -> Outcome {
    let mut probe = Probe::new();
    let stream = send(1, &[0; 24]);
    check_eq!(stream.len(), 48);
    check_eq!(&stream.get()[..4], &[0, 0x2a, 0x41, 0x43]);
    check!(verdict(&stream, &mut probe).is_ok());
    check_eq!(event_len(&probe), Some(24));
    Ok(())
}
