// SPDX-License-Identifier: GPL-2.0

//! Measures the cost of the engine per FPDU, without CRC and copies.
//!
//! `cost [rx|rx-crc|tx] [FPDUS] [PAYLOAD]` prints nanoseconds. Under an instruction counter, the
//! difference between two runs with different FPDUS is exact (for instance `valgrind
//! --tool=callgrind`, or `perf stat -e instructions:u`).

use std::hint::black_box;
use std::time::Instant;

use iwarp::rx::{Event, Handler, Placement, ReadExpect, Receiver, Refusal, RxConfig};
use iwarp::tx::{Framer, Message, Segmenter, Sink};
use iwarp::{Stag, TaggedOffset};
use iwarp_sim::stream::{frame, pattern, Item};

/// A handler that accepts everything, without copying or calculating a CRC.
#[derive(Default)]
struct Nothing {
    octets: u64,
}

impl Handler for Nothing {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        black_box((crc, data.len()));
        // The value of the CRC field of an FPDU that was framed without CRC.
        0
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        None
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        black_box(p);
        Ok(())
    }

    fn place(&mut self, data: &[u8], crc: Option<u32>) -> Result<u32, Refusal> {
        self.octets += data.len() as u64;
        Ok(black_box(crc.unwrap_or(0)))
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        black_box(&mut self.octets);
        Ok(())
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        black_box(e);
        Ok(())
    }
}

impl Sink for Nothing {
    type Error = ();

    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        black_box(crc ^ data.len() as u32)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.octets += bytes.len() as u64;
        black_box(bytes);
        Ok(())
    }

    fn put_payload(&mut self, len: u32, crc: Option<u32>) -> Result<u32, ()> {
        self.octets += u64::from(len);
        Ok(black_box(crc.unwrap_or(0)))
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
    let (start, done) = match &*what {
        "rx" | "rx-crc" => {
            // A stream of messages of one FPDU each, framed without CRC. To the handler each CRC is
            // correct.
            let count = 32;
            let item = Item {
                message,
                payload: pattern(0, payload),
            };
            let stream = frame(&vec![item; count as usize], false, false, || 64768);
            let mut rx = Receiver::new(RxConfig {
                crc: what == "rx-crc",
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
        "tx" => {
            let mut framer = Framer::new(true, false);
            let start = Instant::now();
            for _ in 0..fpdus {
                let mut segmenter = Segmenter::new(black_box(message), black_box(payload));
                while let Some(segment) = segmenter.next(64768) {
                    framer.write(&segment, &mut nothing).expect("sink");
                }
            }
            (start, fpdus)
        }
        _ => panic!("cost [rx|rx-crc|tx] [FPDUS] [PAYLOAD]"),
    };
    let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(done);
    println!(
        "{what}: {ns:.1} ns per FPDU ({} octets in all)",
        nothing.octets
    );
}
