// SPDX-License-Identifier: GPL-2.0

//! Others write to the received bytes while the receiver works: it reads each byte of a header or
//! trailer once, and so what it checks is what it uses.

mod config;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use iwarp::rx::{Event, Handler, Placement, ReadExpect, Receiver, Refusal, RxConfig};
use iwarp::tx::Message;
use iwarp::{SharedByte, Stag, TaggedOffset};
use iwarp_sim::guard::{feed, feed_shared, feed_whole, feed_whole_shared, Any};
use iwarp_sim::stream::{frame, messages, pattern, Item};
use iwarp_sim::{receiver, shared, Entropy};
use proptest::collection::vec;
use proptest::prelude::*;

/// Bytes of the longest header, and of a tagged one.
const HEADER: usize = 20;
const TAGGED_HEADER: usize = 16;

/// How often each byte was read, by its address.
type Reads = RefCell<BTreeMap<usize, u32>>;

/// A handler that inverts what it has copied of the stream, as an attacker might. A second read
/// finds something else.
struct Attacked<'a> {
    inner: Any,
    reads: &'a Reads,
}

impl Attacked<'_> {
    fn count(&self, shared: &[SharedByte]) {
        for byte in shared {
            let at = core::ptr::from_ref(byte) as usize;
            *self.reads.borrow_mut().entry(at).or_default() += 1;
        }
    }
}

impl Handler for Attacked<'_> {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        self.inner.crc32c(crc, data)
    }

    fn crc32c_shared(&mut self, crc: u32, data: &[SharedByte]) -> u32 {
        self.count(data);
        self.inner.crc32c_shared(crc, data)
    }

    fn load<const N: usize>(&mut self, shared: &[SharedByte; N]) -> [u8; N] {
        let copy = self.inner.load(shared);
        // A copy of the longest header may have bytes after a shorter one, which nobody uses.
        let n = match copy.get(2) {
            Some(ddp) if N == HEADER && ddp & 0x80 != 0 => TAGGED_HEADER,
            _ => N,
        };
        self.count(&shared[..n]);
        for byte in &shared[..n] {
            byte.store(!byte.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        copy
    }

    fn copy(&mut self, to: &[SharedByte], from: &[SharedByte]) {
        self.count(from);
        self.inner.copy(to, from);
        for byte in from {
            byte.store(!byte.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        self.inner.expected_read()
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        self.inner.begin_segment(p)
    }

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        self.count(data);
        self.inner.place(data, crc)
    }

    fn place_next(&mut self, data: &[SharedByte]) -> bool {
        let placed = self.inner.place_next(data);
        if placed {
            self.count(data);
        }
        placed
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        self.inner.end_segment()
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        self.inner.deliver(e)
    }
}

/// For each byte of a stream without markers: whether it is of payload, which may be read twice.
fn is_payload(stream: &[u8]) -> Vec<bool> {
    let mut out = Vec::new();
    while out.len() < stream.len() {
        let fpdu = &stream[out.len()..];
        let len = 2 + usize::from(u16::from_be_bytes([fpdu[0], fpdu[1]]));
        let header = if fpdu[2] & 0x80 != 0 {
            TAGGED_HEADER
        } else {
            HEADER
        };
        let has_header = matches!(fpdu[3] & 0x0f, 1 | 7..=11);
        let whole = len.next_multiple_of(4) + 4;
        out.extend((0..whole).map(|at| (header..len).contains(&at) && !has_header));
    }
    out
}

/// A message of many segments.
fn long(e: &mut Entropy) -> Item {
    let message = Message::Write {
        stag: Stag(7),
        to: TaggedOffset(u64::from(e.u32())),
    };
    let payload = pattern(e.u32(), 1000 + e.below(2000));
    Item { message, payload }
}

proptest! {
    #![proptest_config(config::cases(256))]

    /// The handler gets the same calls as without the attacker, who changes each byte that was
    /// copied. Bytes of headers and trailers are read once, if anybody looks at them.
    #[test]
    fn headers_and_trailers_are_read_once(seed in vec(any::<u8>(), 0..400)) {
        let mut e = Entropy::new(&seed);
        let mut items = messages(&mut e, 4);
        let at = e.below(items.len() as u32) as usize;
        items.insert(at, long(&mut e));
        let crc = e.below(4) != 0;
        let stream = frame(&items, crc, false, || 300);
        let mut handler = Any::accepting();
        handler.continues = e.below(4) != 0;
        let waits = e.below(3);
        for (whole, most) in [(false, 600), (false, 5000), (true, 600), (true, 5000)] {
            let cuts: Vec<usize> = (0..stream.len()).map(|_| 1 + e.below(most) as usize).collect();
            let cut = || {
                let mut cuts = cuts.iter();
                move || cuts.next().copied().unwrap_or(1)
            };
            let rx = || receiver(crc);
            let (reads, changing) = (Reads::default(), shared(&stream));
            let inner = Any { waits, ..handler.clone() };
            let attacked = Attacked { inner: inner.clone(), reads: &reads };
            let (calm, got) = if whole {
                (
                    feed_whole(rx(), crc, inner, &stream, cut()),
                    feed_whole_shared(rx(), crc, attacked, &changing, cut()),
                )
            } else {
                (
                    feed(rx(), crc, inner, &stream, cut()),
                    feed_shared(rx(), crc, attacked, &changing, cut()),
                )
            };
            prop_assert_eq!(calm, got);
            for (at, payload) in is_payload(&stream).into_iter().enumerate() {
                let address = core::ptr::from_ref(&changing[at]) as usize;
                let count = reads.borrow().get(&address).copied().unwrap_or(0);
                let most = if payload { 2 } else { 1 };
                prop_assert!(count <= most, "byte {} was read {} times", at, count);
            }
        }
    }
}

/// The attacker is a thread. Whatever the receiver makes of the stream, it keeps its contract with
/// the handler, and accepts no more than the length fields of what it has copied say.
#[test]
fn a_thread_writes_meanwhile() {
    let mut e = Entropy::new(&[7; 64]);
    let items = [long(&mut e), long(&mut e)];
    for crc in [false, true] {
        let stream = frame(&items, crc, false, || 200);
        let (changing, done) = (shared(&stream), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut at = 0;
                while !done.load(Ordering::Relaxed) {
                    // Back and forth, so that both headers are good ones at times.
                    let byte = &changing[at % changing.len()];
                    byte.store(byte.load(Ordering::Relaxed) ^ 1, Ordering::Relaxed);
                    byte.store(stream[at % stream.len()], Ordering::Relaxed);
                    at += 1;
                }
            });
            for _ in 0..200 {
                let rx = Receiver::new(RxConfig { crc });
                feed_shared(rx, crc, Any::accepting(), &changing, || 700);
                let rx = Receiver::new(RxConfig { crc });
                feed_whole_shared(rx, crc, Any::accepting(), &changing, || 700);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
