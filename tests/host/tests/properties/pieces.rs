// SPDX-License-Identifier: GPL-2.0

//! Streams whose segments must not be taken for continuations.

use iwarp::rx::{Event, Receiver, RxConfig};
use iwarp_sim::guard::{feed, Any, Call, Outcome};
use iwarp_sim::stream::pattern;

/// An FPDU without CRC.
fn untagged(opcode: u8, qn: u32, mo: u32, last: bool, payload: &[u8]) -> Vec<u8> {
    let mut fpdu = (18 + payload.len() as u16).to_be_bytes().to_vec();
    fpdu.extend([if last { 0x41 } else { 0x01 }, 0x40 | opcode]);
    for field in [0, qn, 1, mo] {
        fpdu.extend(field.to_be_bytes());
    }
    fpdu.extend(payload);
    fpdu.resize(fpdu.len().next_multiple_of(4) + 4, 0);
    fpdu
}

fn fed(stream: &[u8], first: usize) -> Outcome {
    let mut cuts = [first, usize::MAX].into_iter();
    let rx = Receiver::new(RxConfig { crc: false });
    feed(rx, false, Any::accepting(), stream, || {
        cuts.next().unwrap_or(usize::MAX)
    })
}

/// A Read Request in pieces goes to no buffer, although each piece continues the one before.
#[test]
fn pieces_of_a_request_are_not_placed() {
    let request = pattern(0, 28);
    let pieces = request.chunks(7).enumerate();
    let fpdus = pieces.map(|(i, piece)| untagged(1, 1, 7 * i as u32, i == 3, piece));
    let outcome = fed(&fpdus.collect::<Vec<_>>().concat(), usize::MAX);
    assert!(matches!(
        outcome.calls[..],
        [Call::Deliver(Event::ReadRequest(_))]
    ));
}

/// Empty segments of a Send, whose headers are all the same, are seen one by one.
#[test]
fn empty_segments_are_not_continued() {
    let stream = [
        untagged(3, 0, 0, false, &[]),
        untagged(3, 0, 0, false, &[]),
        untagged(3, 0, 0, true, &[]),
    ];
    let outcome = fed(&stream.concat(), usize::MAX);
    let ends = outcome
        .calls
        .iter()
        .filter(|call| matches!(call, Call::End(_)));
    assert_eq!((outcome.result, ends.count()), (Ok(()), 3));
}

/// A header of which some bytes have come already is not taken for a whole one that begins with
/// the next byte.
#[test]
fn a_begun_header_is_not_passed_over() {
    let piece = |i: u32| untagged(3, 0, 8 * i, false, &[0; 8]);
    let mut stream = piece(0);
    let begun = stream.len() + 2;
    stream.extend(&piece(1)[..2]);
    stream.extend(piece(1));
    let whole = fed(&stream, usize::MAX);
    assert!(whole.result.is_err());
    assert_eq!(whole, fed(&stream, begun));
}
