// SPDX-License-Identifier: GPL-2.0

//! Arbitrary bytes, in arbitrary pieces: the receiver keeps its contract with the handler, and makes the
//! same calls however the stream is split.

#![no_main]

use iwarp::rx::{ReadExpect, Receiver, Refusal, RxConfig};
use iwarp::{Stag, TaggedOffset};
use iwarp_sim::guard::{feed, Any};
use iwarp_sim::{crc32c, Entropy};
use libfuzzer_sys::fuzz_target;

const REFUSALS: [Refusal; 10] = [
    Refusal::InvalidStag,
    Refusal::Bounds,
    Refusal::Access,
    Refusal::NotAssociated,
    Refusal::NoBuffer,
    Refusal::TooLong,
    Refusal::CannotInvalidate,
    Refusal::Local,
    Refusal::Misaligned,
    Refusal::Unexpected,
];

/// `data` itself, or FPDUs whose ULPDUs are `data`: random bytes have wrong lengths and CRCs, and so
/// reach little code.
fn stream(framed: bool, data: &[u8]) -> Vec<u8> {
    if !framed {
        return data.to_vec();
    }
    let mut stream = Vec::new();
    let mut rest = data;
    while let Some((len, r)) = rest.split_first() {
        let (ulpdu, r) = r.split_at(r.len().min(usize::from(*len)));
        rest = r;
        let start = stream.len();
        stream.extend((ulpdu.len() as u16).to_be_bytes());
        stream.extend(ulpdu);
        while (stream.len() - start) % 4 != 0 {
            stream.push(0);
        }
        let crc = !crc32c(!0, &stream[start..]);
        stream.extend(crc.to_le_bytes());
    }
    stream
}

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk::<6>() else {
        return;
    };
    let [mode, refuse, why, cut, read_len, read_stag] = *head;
    let crc = mode & 1 != 0;
    let handler = Any {
        refuse_at: (mode & 4 != 0).then_some(u32::from(refuse)),
        why: REFUSALS[usize::from(why) % REFUSALS.len()],
        expect: (mode & 8 != 0).then_some(ReadExpect {
            stag: Stag(u32::from(read_stag)),
            to: TaggedOffset(0),
            len: u32::from(read_len),
        }),
        waits: u32::from(mode >> 6),
        ..Any::accepting()
    };
    let stream = stream(mode & 2 != 0, rest);
    let receiver = || {
        let mut rx = Receiver::new(RxConfig { crc });
        if mode & 16 != 0 {
            rx.expect_rtr_send();
        }
        if mode & 32 != 0 {
            rx.allow_extensions();
        }
        rx
    };
    // A Send that waits for its receive makes no difference in the end.
    let prompt = Any {
        waits: 0,
        ..handler.clone()
    };
    let whole = feed(receiver(), crc, prompt, &stream, || usize::MAX);
    let mut e = Entropy::new(&[cut]);
    let pieces = feed(receiver(), crc, handler, &stream, || {
        1 + e.below(u32::from(cut) + 1) as usize
    });
    whole.check_pieces(&pieces);
});
