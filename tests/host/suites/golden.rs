// SPDX-License-Identifier: GPL-2.0

//! Compares the bytes that the engine sends with the figures of the RFCs.

mod extensions;

use super::probe::{extended, Probe};
use super::wire::{fpdu, op, tagged, untagged, untagged_inv, Tape, Wire, LAST, MORE};
use super::wire::{TAGGED_LAST, TAGGED_MORE};
use super::Outcome;
use iwarp::rdmap::{AtomicOp, AtomicRequest, AtomicResponse, Immediate};
use iwarp::rx::Event;
use iwarp::tx::{Framer, Message, Segment, Segmenter};
use iwarp::{Msn, ReadRequest, Stag, TaggedOffset, TermCode, Terminate};

cases! { rsiw_iwarp_golden:
    crc32c_of_rfc3720
    mpa_figure_5
    mpa_figure_6
    send_header
    send_with_invalidate_header
    send_with_immediate_header
    write_header
    read_request_message
    read_response_header
    terminate_message
    untagged_example_of_ddp
    tagged_example_of_ddp
    write_to_wraps
    zero_length_messages
}

/// The only segment of a message.
pub(super) fn only(message: Message, len: u32) -> Option<Segment> {
    let mut segmenter = Segmenter::new(message, len);
    let segment = segmenter.next(1500)?;
    (segment.last() && segmenter.done() && segmenter.next(1500).is_none()).then_some(segment)
}

/// The FPDU of the only segment of a message, with CRC, payload 1, 2, 3, ...
fn framed(message: Message, len: u32) -> Option<Wire> {
    let mut tape = Tape::new(false);
    let segment = only(message, len)?;
    let mut framer = Framer::new(true, false);
    let expected = framer.fpdu_len(&segment);
    framer.write(&segment, &mut tape).ok()?;
    (tape.out.len() == expected && expected == segment.fpdu_len()).then_some(tape.out)
}

pub(super) fn send(msn: u32) -> Message {
    Message::Send {
        msn: Msn(msn),
        solicited: false,
        invalidate: None,
    }
}

//= 5044-4.4-8
/// RFC 3720 B.4: the CRC of 32 zeros is sent as aa 36 91 8a, that of 32 ones as 43 ab a8 62.
pub(crate) fn crc32c_of_rfc3720() -> Outcome {
    use super::wire::crc32c;
    use iwarp::mpa::fpdu::{crc_field, CRC_INIT};
    let zeros = crc_field(crc32c(CRC_INIT, &[0; 32]));
    check_eq!(zeros, [0xaa, 0x36, 0x91, 0x8a]);
    let ones = crc_field(crc32c(CRC_INIT, &[0xff; 32]));
    check_eq!(ones, [0x43, 0xab, 0xa8, 0x62]);
    Ok(())
}

//= 5044-4.1-1, 5044-4.3-5, 5044-4.3-7, 5044-4.4-1, 5044-4.4-8, 5044-4.4-9
/// RFC 5044 Figure 5: the first FPDU of a stream with markers, byte by byte.
pub(crate) fn mpa_figure_5() -> Outcome {
    let mut tape = Tape::<256>::new(true);
    let mut framer = Framer::new(true, true);
    let Some(segment) = only(send(1), 24) else {
        check!(false);
        return Ok(());
    };
    check_eq!(framer.fpdu_len(&segment), 0x34);
    check!(framer.write(&segment, &mut tape).is_ok());
    let figure = Wire::new()
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .bytes(&[0x00, 0x2a, 0x41, 0x43])
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .bytes(&[0x00, 0x00, 0x00, 0x01])
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .fill(0, 24)
        .bytes(&[0x52, 0x23, 0x99, 0x83]);
    check_eq!(tape.out.get(), figure.get());
    Ok(())
}

//= 5044-4.2-1, 5044-4.2-2, 5044-4.3-2, 5044-4.4-8
/// RFC 5044 Figure 6: the second FPDU, after one of 492 bytes, with a marker inside.
pub(crate) fn mpa_figure_6() -> Outcome {
    let mut tape = Tape::<640>::new(true);
    let mut framer = Framer::new(true, true);
    // 492 bytes: 4 of marker, 2 of length, 18 of header, 464 of payload, 4 of CRC.
    let (Some(first), Some(second)) = (only(send(1), 464), only(send(2), 24)) else {
        check!(false);
        return Ok(());
    };
    check_eq!(framer.fpdu_len(&first), 492);
    check!(framer.write(&first, &mut tape).is_ok());
    check_eq!(tape.out.len(), 0x1ec);
    check_eq!(framer.fpdu_len(&second), 0x34);
    check!(framer.write(&second, &mut tape).is_ok());
    let figure = Wire::new()
        .bytes(&[0x00, 0x2a, 0x41, 0x43])
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .bytes(&[0x00, 0x00, 0x00, 0x02])
        .bytes(&[0x00, 0x00, 0x00, 0x00])
        .bytes(&[0x00, 0x00, 0x00, 0x14])
        .fill(0, 24)
        .bytes(&[0x84, 0x92, 0x58, 0x98]);
    check_eq!(&tape.out.get()[0x1ec..], figure.get());
    Ok(())
}

//= 5040-3.1-1, 5040-4.1-1, 5040-4.1-2, 5040-4.1-4, 5040-4.1-6, 5040-4.1-8, 5040-4.1-9,
//= 5040-4.1-10, 5040-5.3-1, 5040-5.3-2, 5040-5.3-5, 5041-4.1-8, 5041-4.1-9, 5041-4.3-1,
//= 5041-4.3-13
/// RFC 5040 Figure 14.
pub(crate) fn send_header() -> Outcome {
    for (solicited, control) in [(false, op::SEND), (true, op::SEND_SE)] {
        let message = Message::Send {
            msn: Msn(0x0102_0304),
            solicited,
            invalidate: None,
        };
        let Some(got) = framed(message, 3) else {
            check!(false);
            return Ok(());
        };
        let expected = fpdu(&untagged(LAST, control, 0, 0x0102_0304, 0, &[1, 2, 3]));
        check_eq!(got.get(), expected.get());
    }
    Ok(())
}

//= 5040-4.1-3, 5040-4.1-6, 5040-5.3-8, 5040-5.3-9, 5041-4.3-2
/// RFC 5040 Figure 15.
pub(crate) fn send_with_invalidate_header() -> Outcome {
    for (solicited, control) in [(false, op::SEND_INV), (true, op::SEND_SE_INV)] {
        let message = Message::Send {
            msn: Msn(7),
            solicited,
            invalidate: Some(Stag(0xa1b2_c3d4)),
        };
        let Some(got) = framed(message, 2) else {
            check!(false);
            return Ok(());
        };
        let expected = fpdu(&untagged_inv(LAST, control, 0xa1b2_c3d4, 0, 7, 0, &[1, 2]));
        check_eq!(got.get(), expected.get());
    }
    Ok(())
}

/// A Send with immediate data has them where others have the STag, in each segment.
pub(crate) fn send_with_immediate_header() -> Outcome {
    for (solicited, control) in [(false, op::SEND_IMM), (true, op::SEND_SE_IMM)] {
        let message = Message::SendImmediate {
            msn: Msn(7),
            solicited,
            data: [0xa1, 0xb2, 0xc3, 0xd4],
        };
        let Some(got) = framed(message, 2) else {
            check!(false);
            return Ok(());
        };
        let expected = fpdu(&untagged_inv(LAST, control, 0xa1b2_c3d4, 0, 7, 0, &[1, 2]));
        check_eq!(got.get(), expected.get());
        let mut segmenter = Segmenter::new(message, 200);
        let (Some(first), Some(last)) = (segmenter.next(128), segmenter.next(128)) else {
            check!(false);
            return Ok(());
        };
        let header = untagged_inv(MORE, control, 0xa1b2_c3d4, 0, 7, 0, &[]);
        check_eq!(&first.header()[2..], header.get());
        let header = untagged_inv(LAST, control, 0xa1b2_c3d4, 0, 7, 110, &[]);
        check_eq!(&last.header()[2..], header.get());
    }
    Ok(())
}

//= 5040-4.1-1, 5040-4.1-4, 5040-4.1-6, 5040-5.1-1, 5040-5.1-2, 5041-4.1-9, 5041-4.2-1,
//= 5041-4.2-2, 5041-4.2-7, 5041-5.2-6
/// RFC 5040 Figure 11.
pub(crate) fn write_header() -> Outcome {
    let message = Message::Write {
        stag: Stag(0xa1b2_c3d4),
        to: TaggedOffset(0x0102_0304_0506_0708),
    };
    let Some(got) = framed(message, 5) else {
        check!(false);
        return Ok(());
    };
    let payload = [1, 2, 3, 4, 5];
    let ulpdu = tagged(
        TAGGED_LAST,
        op::WRITE,
        0xa1b2_c3d4,
        0x0102_0304_0506_0708,
        &payload,
    );
    check_eq!(got.get(), fpdu(&ulpdu).get());
    Ok(())
}

//= 5040-4.1-6, 5040-4.1-7, 5040-4.2-1, 5040-4.4-1, 5040-5.2.1-1, 5040-5.2.1-2, 5040-5.2.1-6,
//= 5040-5.2.1-7, 5040-5.2.1-10, 5040-5.2.1-11
/// RFC 5040 Figure 12.
pub(crate) fn read_request_message() -> Outcome {
    let message = Message::ReadRequest {
        msn: Msn(3),
        req: ReadRequest {
            sink_stag: Stag(0x1111_2222),
            sink_to: TaggedOffset(0x3333_4444_5555_6666),
            len: 0x7777_8888,
            src_stag: Stag(0x9999_aaaa),
            src_to: TaggedOffset(0xbbbb_cccc_dddd_eeee),
        },
    };
    // The engine must ignore the length that is passed for a Read Request.
    let Some(got) = framed(message, 99) else {
        check!(false);
        return Ok(());
    };
    let header = super::wire::read_header(
        0x1111_2222,
        0x3333_4444_5555_6666,
        0x7777_8888,
        0x9999_aaaa,
        0xbbbb_cccc_dddd_eeee,
    );
    let expected = fpdu(&untagged(LAST, op::READ_REQUEST, 1, 3, 0, header.get()));
    check_eq!(got.get(), expected.get());
    Ok(())
}

//= 5040-4.1-6, 5040-4.4-2, 5040-5.2.2-1, 5040-5.2.2-2
/// RFC 5040 Figure 13.
pub(crate) fn read_response_header() -> Outcome {
    let message = Message::ReadResponse {
        stag: Stag(5),
        to: TaggedOffset(6),
    };
    let Some(got) = framed(message, 1) else {
        check!(false);
        return Ok(());
    };
    let expected = fpdu(&tagged(TAGGED_LAST, op::READ_RESPONSE, 5, 6, &[1]));
    check_eq!(got.get(), expected.get());
    Ok(())
}

//= 5040-4.1-6, 5040-4.1-7, 5040-4.2-1, 5040-5.4-1, 5040-5.4-2, 5040-5.4-3
/// RFC 5040 Figure 16; a Terminate has the first MSN of QN 2.
pub(crate) fn terminate_message() -> Outcome {
    let message = Message::Terminate {
        term: Terminate::new(TermCode::MPA_CRC),
    };
    let Some(got) = framed(message, 0) else {
        check!(false);
        return Ok(());
    };
    let expected = fpdu(&untagged(LAST, op::TERMINATE, 2, 1, 0, &[0x20, 0x02, 0, 0]));
    check_eq!(got.get(), expected.get());
    Ok(())
}

//= 5041-4.1-3, 5041-4.1-4, 5041-4.1-6, 5041-5.2-1, 5041-5.2-5
/// RFC 5041 s5.2: a message of 2048 bytes and a MULPDU of 1500 make segments of 1482 and 566.
pub(crate) fn untagged_example_of_ddp() -> Outcome {
    let mut segmenter = Segmenter::new(send(1), 2048);
    check_eq!(segmenter.remaining(), 2048);
    let (Some(a), Some(b)) = (segmenter.next(1500), segmenter.next(1500)) else {
        check!(false);
        return Ok(());
    };
    check_eq!(
        (a.payload_offset(), a.payload_len(), a.last()),
        (0, 1482, false)
    );
    check_eq!(
        (b.payload_offset(), b.payload_len(), b.last()),
        (1482, 566, true)
    );
    check_eq!(a.ulpdu_len(), 1500);
    let header = untagged(MORE, op::SEND, 0, 1, 0, &[]);
    check_eq!(&a.header()[2..], header.get());
    let header = untagged(LAST, op::SEND, 0, 1, 1482, &[]);
    check_eq!(&b.header()[2..], header.get());
    check!(segmenter.done());
    check_eq!(segmenter.remaining(), 0);
    check!(segmenter.next(1500).is_none());
    Ok(())
}

//= 5041-5.2-7
/// RFC 5041 s5.2: the same with an initial TO of 16384 makes segments of 1486 and 562.
pub(crate) fn tagged_example_of_ddp() -> Outcome {
    for (message, control) in [
        (
            Message::Write {
                stag: Stag(9),
                to: TaggedOffset(16384),
            },
            op::WRITE,
        ),
        (
            Message::ReadResponse {
                stag: Stag(9),
                to: TaggedOffset(16384),
            },
            op::READ_RESPONSE,
        ),
    ] {
        let mut segmenter = Segmenter::new(message, 2048);
        let (Some(a), Some(b)) = (segmenter.next(1500), segmenter.next(1500)) else {
            check!(false);
            return Ok(());
        };
        check_eq!(
            (a.payload_offset(), a.payload_len(), a.last()),
            (0, 1486, false)
        );
        check_eq!(
            (b.payload_offset(), b.payload_len(), b.last()),
            (1486, 562, true)
        );
        let header = tagged(TAGGED_MORE, control, 9, 16384, &[]);
        check_eq!(&a.header()[2..], header.get());
        let header = tagged(TAGGED_LAST, control, 9, 17870, &[]);
        check_eq!(&b.header()[2..], header.get());
        check!(segmenter.next(1500).is_none());
    }
    Ok(())
}

/// A peer may request a response whose Tagged Offsets wrap. The engine sends it; checking is the
/// peer's task.
pub(crate) fn write_to_wraps() -> Outcome {
    let message = Message::ReadResponse {
        stag: Stag(9),
        to: TaggedOffset(u64::MAX),
    };
    let mut segmenter = Segmenter::new(message, 300);
    let (Some(_), Some(b)) = (segmenter.next(128), segmenter.next(128)) else {
        check!(false);
        return Ok(());
    };
    let header = tagged(TAGGED_MORE, op::READ_RESPONSE, 9, 113, &[]);
    check_eq!(&b.header()[2..], header.get());
    Ok(())
}

//= 5040-5.2.1-15, 5041-5.2-8
/// RFC 5041 s5.2: "A zero-length DDP Message is allowed and MUST consume exactly one DDP Segment."
pub(crate) fn zero_length_messages() -> Outcome {
    let (stag, to) = (Stag(1), TaggedOffset(2));
    for (message, ulpdu) in [
        (send(4), untagged(LAST, op::SEND, 0, 4, 0, &[])),
        (
            Message::Write { stag, to },
            tagged(TAGGED_LAST, op::WRITE, 1, 2, &[]),
        ),
        (
            Message::ReadResponse { stag, to },
            tagged(TAGGED_LAST, op::READ_RESPONSE, 1, 2, &[]),
        ),
    ] {
        let Some(got) = framed(message, 0) else {
            check!(false);
            return Ok(());
        };
        check_eq!(got.get(), fpdu(&ulpdu).get());
    }
    Ok(())
}
