// SPDX-License-Identifier: GPL-2.0

//! How messages are cut into segments, and segments framed: sizes, pads, markers, and the ways to
//! write an FPDU.

use super::golden::{only, send};
use super::wire::{fpdu, op, untagged, Full, Tape, LAST};
use super::Outcome;
use iwarp::mpa::mulpdu;
use iwarp::tx::{Framer, Message, Segmenter};
use iwarp::{Stag, TaggedOffset, TermCode, Terminate};

cases! { rsiw_iwarp_framing:
    marker_after_pad
    marker_between_fpdus
    markers_in_long_fpdu
    mulpdu_formula
    mulpdu_bounds
    full_mulpdu_has_no_pad
    small_mulpdu_is_raised
    crc_off_sends_field
    exact_fit_is_one_segment
    stepped_segments_are_the_same
    whole_fpdus_are_the_same
    whole_fpdus_need_their_room
    failing_sink
}

/// A stream of two FPDUs with markers, the first with this much payload, and where the second
/// starts.
fn two_fpdus(first: u32) -> Option<(Tape<1400>, usize)> {
    let mut tape = Tape::new(true);
    let mut framer = Framer::new(true, true);
    framer.write(&only(send(1), first)?, &mut tape).ok()?;
    let second = tape.out.len();
    framer.write(&only(send(2), 8)?, &mut tape).ok()?;
    Some((tape, second))
}

//= 5044-4.4-9
/// RFC 5044 s4.4: "If there is a Marker immediately following the PAD, the Marker is included in
/// the CRC calculation for this FPDU."
pub(crate) fn marker_after_pad() -> Outcome {
    // 4 + 2 + 18 + 487 + 1 of pad = 512.
    let Some((tape, second)) = two_fpdus(487) else {
        check!(false);
        return Ok(());
    };
    let out = tape.out.get();
    check_eq!(second, 520);
    check_eq!(&out[512..516], &[0, 0, 0x01, 0xfc]);
    let crc = !super::wire::crc32c(!0, &out[..516]);
    check_eq!(&out[516..520], &crc.to_le_bytes());
    Ok(())
}

//= 5044-4.3-5, 5044-4.3-9
/// RFC 5044 s4.3: "An FPDUPTR value of 0x0000 means that immediately following the Marker is an
/// FPDU header", and the marker is in that FPDU's CRC.
pub(crate) fn marker_between_fpdus() -> Outcome {
    // 4 + 2 + 18 + 484 + 4 = 512.
    let Some((tape, second)) = two_fpdus(484) else {
        check!(false);
        return Ok(());
    };
    let out = tape.out.get();
    check_eq!(second, 512);
    check_eq!(&out[512..516], &[0, 0, 0, 0]);
    check_eq!(&out[516..520], &[0, 26, LAST, op::SEND]);
    let crc = !super::wire::crc32c(!0, &out[512..544]);
    check_eq!(&out[544..], &crc.to_le_bytes());
    Ok(())
}

//= 5044-4.3-3, 5044-4.3-8
/// RFC 5044 s4.3: several markers of an FPDU "MUST all point to the same point in the TCP stream:
/// the first octet of the ULPDU Length field".
pub(crate) fn markers_in_long_fpdu() -> Outcome {
    let Some((tape, second)) = two_fpdus(1200) else {
        check!(false);
        return Ok(());
    };
    let out = tape.out.get();
    // 2 + 18 + 1200 + 0 + 4 and markers at 0, 512 and 1024.
    check_eq!(second, 1224 + 12);
    check_eq!(&out[0..4], &[0, 0, 0, 0]);
    check_eq!(&out[512..516], &[0, 0, 0x01, 0xfc]);
    check_eq!(&out[1024..1028], &[0, 0, 0x03, 0xfc]);
    Ok(())
}

//= 5044-3-2, 5044-4.5-1, 5044-4.5-2
/// RFC 5044 s4.5: the engine's MULPDU equals both formulas.
pub(crate) fn mulpdu_formula() -> Outcome {
    for emss in 200..70_000u32 {
        let with = emss - (6 + 4 * emss.div_ceil(512) + emss % 4);
        let without = emss - (6 + emss % 4);
        check_eq!(u32::from(mulpdu(emss, true)), with.clamp(128, 64768));
        check_eq!(u32::from(mulpdu(emss, false)), without.clamp(128, 64768));
    }
    check_eq!(mulpdu(1460, false), 1454);
    check_eq!(mulpdu(1448, false), 1442);
    Ok(())
}

//= 5044-3-3, 5044-4.5-3
/// RFC 5044 s3: "The range of MULPDU values MUST be between 128 octets and 64768 octets,
/// inclusive."
pub(crate) fn mulpdu_bounds() -> Outcome {
    for emss in [0, 1, 5, 6, 7, 127, 128, 133, 134, 135] {
        check_eq!(mulpdu(emss, false), 128);
        check_eq!(mulpdu(emss, true), 128);
    }
    for emss in [64776, 65535, 65536, u32::MAX] {
        check_eq!(mulpdu(emss, false), 64768);
    }
    check_eq!(mulpdu(u32::MAX, true), 64768);
    Ok(())
}

/// A full FPDU fills its TCP segment, down to a multiple of four bytes.
pub(crate) fn full_mulpdu_has_no_pad() -> Outcome {
    for emss in 200..1600 {
        let mut segmenter = Segmenter::new(send(1), 100_000);
        let Some(segment) = segmenter.next(mulpdu(emss, false)) else {
            check!(false);
            return Ok(());
        };
        check_eq!(segment.fpdu_len(), emss as usize / 4 * 4);
    }
    Ok(())
}

//= 5044-3-4, 5044-3-5, 5044-4.5-4
/// A MULPDU below the minimum is raised, so that a message can make progress.
pub(crate) fn small_mulpdu_is_raised() -> Outcome {
    for size in [0, 1, 17, 18, 127] {
        let mut segmenter = Segmenter::new(send(1), 200);
        let Some(segment) = segmenter.next(size) else {
            check!(false);
            return Ok(());
        };
        check_eq!(segment.ulpdu_len(), 128);
    }
    let mut segmenter = Segmenter::new(send(1), 200_000);
    check_eq!(segmenter.next(u16::MAX).map(|s| s.ulpdu_len()), Some(64768));
    Ok(())
}

//= 5044-4.1-3, 5044-4.4-7
/// RFC 5044 s4.1: "When CRCs are not enabled, this field is still present".
pub(crate) fn crc_off_sends_field() -> Outcome {
    let Some(segment) = only(send(1), 3) else {
        check!(false);
        return Ok(());
    };
    for markers in [false, true] {
        let mut tape = Tape::<256>::new(false);
        let mut framer = Framer::new(false, markers);
        let len = framer.fpdu_len(&segment);
        check!(framer.write(&segment, &mut tape).is_ok());
        check_eq!(tape.out.len(), len);
        check_eq!(tape.crcs, 0);
        let expected = fpdu(&untagged(LAST, op::SEND, 0, 1, 0, &[1, 2, 3]));
        let without_crc = &expected.get()[..24];
        let skip = if markers { 4 } else { 0 };
        check_eq!(&tape.out.get()[skip..skip + 24], without_crc);
    }
    Ok(())
}

/// No empty segment follows a full last one.
pub(crate) fn exact_fit_is_one_segment() -> Outcome {
    for (message, header) in [
        (send(1), 18),
        (
            Message::Write {
                stag: Stag(1),
                to: TaggedOffset(2),
            },
            14,
        ),
    ] {
        for (len, segments) in [
            (1000 - header, 1),
            (1001 - header, 2),
            (2000 - 2 * header, 2),
        ] {
            let mut segmenter = Segmenter::new(message, len);
            let mut count = 0;
            while let Some(segment) = segmenter.next(1000) {
                count += 1;
                check_eq!(segment.last(), count == segments);
            }
            check_eq!(count, segments);
        }
    }
    Ok(())
}

/// Segments that are made of the one before are those that the segmenter makes one by one.
pub(crate) fn stepped_segments_are_the_same() -> Outcome {
    let (stag, to) = (Stag(1), TaggedOffset(u64::MAX - 3000));
    let messages = [
        send(7),
        Message::Write { stag, to },
        Message::ReadResponse { stag, to },
    ];
    for message in messages {
        for len in [0, 1, 982, 983, 1964, 2950, 4910, 9000] {
            for most in [0, 1, 3, 100] {
                let mut one_by_one = Segmenter::new(message, len);
                let mut segmenter = Segmenter::new(message, len);
                while let Some(mut segment) = segmenter.next(1000) {
                    let count = segmenter.skip_like(&segment, most);
                    check!(count <= most);
                    for i in 0..=count {
                        let Some(expected) = one_by_one.next(1000) else {
                            check!(false);
                            return Ok(());
                        };
                        check_eq!(segment.header(), expected.header());
                        check_eq!(segment.payload_offset(), expected.payload_offset());
                        check_eq!(segment.payload_len(), expected.payload_len());
                        check_eq!(segment.last(), expected.last());
                        if i < count {
                            segment.step();
                        }
                    }
                }
                check!(one_by_one.done());
            }
        }
    }
    Ok(())
}

//= 5044-4.1-1
/// An FPDU that is written in whole has the bytes of one that is written piece by piece.
pub(crate) fn whole_fpdus_are_the_same() -> Outcome {
    let (stag, to) = (Stag(1), TaggedOffset(2));
    let messages = [
        send(1),
        Message::Write { stag, to },
        Message::Terminate {
            term: Terminate::new(TermCode::MPA_CRC),
        },
    ];
    for message in messages {
        for len in [0, 1, 2, 3, 4, 5, 6, 7, 8, 1201] {
            for crc in [false, true] {
                let Some(segment) = only(message, len) else {
                    check!(false);
                    return Ok(());
                };
                let mut pieces = Tape::<1400>::new(false);
                check!(Framer::new(crc, false).write(&segment, &mut pieces).is_ok());
                let (mut room, mut whole) = ([0xee; 1400], Tape::<1>::new(false));
                let room = room.get_mut(..segment.fpdu_len()).unwrap_or_default();
                let wrote = Framer::new(crc, false).write_whole(&segment, room, &mut whole);
                check_eq!(wrote, Ok(true));
                check_eq!(&*room, pieces.out.get());
                check_eq!(whole.crcs, u32::from(crc));
            }
        }
    }
    Ok(())
}

/// Memory of another length, a payload that cannot be read, and markers are told.
pub(crate) fn whole_fpdus_need_their_room() -> Outcome {
    let Some(segment) = only(send(1), 9) else {
        check!(false);
        return Ok(());
    };
    let len = segment.fpdu_len();
    for (markers, room) in [(false, 0), (false, len - 1), (false, len + 4), (true, len)] {
        let mut tape = Tape::<1>::new(false);
        let mut memory = [0; 64];
        let room = memory.get_mut(..room).unwrap_or_default();
        let wrote = Framer::new(true, markers).write_whole(&segment, room, &mut tape);
        check_eq!(wrote, Ok(false));
        check_eq!(tape.at, 0);
    }
    let mut tape = Tape::<1>::new(false);
    tape.room = 0;
    let mut memory = [0; 64];
    let room = memory.get_mut(..len).unwrap_or_default();
    let wrote = Framer::new(true, false).write_whole(&segment, room, &mut tape);
    check_eq!(wrote, Err(Full));
    Ok(())
}

/// Whichever call of a sink fails, the framer reports it and makes no further call.
pub(crate) fn failing_sink() -> Outcome {
    let Some(segment) = only(send(1), 1201) else {
        check!(false);
        return Ok(());
    };
    // Calls: header, payload, trailer; with markers also the markers, and the payload and pad
    // between them.
    for (markers, calls) in [(false, 3), (true, 9)] {
        for room in 0..=calls {
            let mut tape = Tape::<1400>::new(false);
            tape.room = room;
            let got = Framer::new(true, markers).write(&segment, &mut tape);
            check_eq!(got, if room < calls { Err(Full) } else { Ok(()) });
            check_eq!(tape.room, 0);
            check_eq!(tape.failed, u32::from(room < calls));
        }
    }
    Ok(())
}
