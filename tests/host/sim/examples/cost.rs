// SPDX-License-Identifier: GPL-2.0

//! Measures the cost of the engine per FPDU, without CRC and copies.
//!
//! `cost WHAT [FPDUS] [PAYLOAD]` prints nanoseconds. WHAT: `rx`, `rx-crc`, `tx`, each FPDU a
//! message; `rx-long`, `rx-long-crc`, `tx-long`, with FPDUs of long messages. Under an instruction
//! counter, the difference between two runs with different FPDUS is exact (for instance `valgrind
//! --tool=callgrind`, or `perf stat -e instructions:u`).

use std::hint::black_box;
use std::time::Instant;

use iwarp::mpa::fpdu::CRC_INIT;
use iwarp::rx::{Event, Handler, Placement, ReadExpect, Receiver, Refusal, RxConfig};
use iwarp::tx::{Framer, Message, Payload, Segment, Segmenter};
use iwarp::{SharedByte, Stag, TaggedOffset};
use iwarp_sim::shared;
use iwarp_sim::stream::{frame, pattern, Item};

// As the driver copies headers.
#[allow(unreachable_pub)]
#[path = "../../../../rust/kext/load.rs"]
mod load;

/// A handler that accepts everything, without copying or calculating a CRC.
#[derive(Default)]
struct Nothing {
    bytes: u64,
}

impl Handler for Nothing {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        black_box((crc, data.len()));
        // The register that the CRC field of an FPDU stands for that was framed without CRC.
        CRC_INIT
    }

    fn crc32c_shared(&mut self, crc: u32, data: &[SharedByte]) -> u32 {
        black_box((crc, data.len()));
        CRC_INIT
    }

    fn load<const N: usize>(&mut self, bytes: &[SharedByte; N]) -> [u8; N] {
        load::load(bytes)
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        None
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        black_box(p);
        Ok(())
    }

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        self.bytes += data.len() as u64;
        Ok(black_box(crc.unwrap_or(0)))
    }

    fn place_next(&mut self, data: &[SharedByte]) -> bool {
        self.bytes += data.len() as u64;
        black_box(true)
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        black_box(&mut self.bytes);
        Ok(())
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        black_box(e);
        Ok(())
    }
}

impl Payload for Nothing {
    type Error = ();

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        black_box(crc ^ data.len() as u32)
    }

    fn copy_to(&mut self, dst: &mut [u8]) -> Result<(), ()> {
        self.bytes += dst.len() as u64;
        black_box(dst);
        Ok(())
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "rx".into());
    let mut number = |default| args.next().map_or(default, |a| a.parse().expect("number"));
    let fpdus: u32 = number(10_000_000);
    let payload: u32 = number(1428);

    let message = Message::Write {
        stag: Stag(0x1234_5600),
        to: TaggedOffset(0x10_0000),
    };
    let mut nothing = Nothing::default();
    // FPDUs of a message, and the longest ULPDU.
    let (of_message, mulpdu) = if what.contains("long") {
        (32, payload as u16 + 14)
    } else {
        (1, 64768)
    };
    let (start, done) = match &*what {
        "rx" | "rx-crc" | "rx-long" | "rx-long-crc" => {
            // Framed without CRC. To the handler each CRC is correct.
            let count = 32;
            let item = Item {
                message,
                payload: pattern(0, of_message * payload),
            };
            let messages = vec![item; (count / of_message) as usize];
            let stream = shared(&frame(&messages, false, false, || mulpdu));
            let mut rx = Receiver::new(RxConfig {
                crc: what.ends_with("crc"),
            });
            let start = Instant::now();
            let mut done = 0;
            while done < fpdus {
                let stream = black_box(&stream);
                rx.receive(stream, &mut nothing).expect("good stream");
                done += count;
            }
            (start, done)
        }
        "tx" | "tx-long" => {
            let framer = Framer::new(true, false);
            let (mut room, mut segment) = (vec![0; 65536], Segment::EMPTY);
            let mut write = |segment: &Segment| {
                let room = &mut room[..segment.fpdu_len()];
                framer.write_whole(segment, room, &mut nothing) == Ok(true)
            };
            let start = Instant::now();
            for _ in 0..fpdus / of_message {
                let mut segmenter =
                    Segmenter::new(black_box(message), black_box(of_message * payload));
                while segmenter.next_into(mulpdu, &mut segment) {
                    assert!(write(&segment));
                    for _ in 0..segmenter.skip_like(&segment, usize::MAX) {
                        segment.step();
                        assert!(write(&segment));
                    }
                }
            }
            (start, fpdus)
        }
        _ => panic!("cost [rx|rx-crc|tx|rx-long|rx-long-crc|tx-long] [FPDUS] [PAYLOAD]"),
    };
    let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(done);
    println!(
        "{what}: {ns:.1} ns per FPDU ({} bytes in all)",
        nothing.bytes
    );
}
