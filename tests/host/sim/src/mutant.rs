// SPDX-License-Identifier: GPL-2.0

//! Two peers that run scripts, while data between them is damaged.
//!
//! There are two kinds of damage. Damage to the stream acts like a faulty network; the CRC detects
//! it. A forged FPDU has damaged content and a correct CRC; it acts like a peer that breaks the
//! rules, in any state of the stream.

use std::collections::VecDeque;

use crate::pair::{ends, pass, transmit, End, Summary, BLANK, READABLE, SINK, SIZE};
use crate::stream::pattern;
use crate::{crc32c, Entropy};

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// How often the stream was damaged or an FPDU forged.
    pub damages: u32,
    /// Ends that found a fault.
    pub faults: u32,
    /// Operations that both ends began.
    pub operations: usize,
    /// Messages and Reads that were completed.
    pub completed: usize,
}

/// How often, of 256 times, the stream is damaged, or an FPDU forged.
#[derive(Clone, Copy)]
struct Rates {
    stream: u8,
    fpdu: u8,
}

/// Changes, removes or inserts bytes.
fn damage(bytes: &mut Vec<u8>, e: &mut Entropy) {
    let at = usize::from(e.u16()) % bytes.len();
    match e.below(6) {
        0 => bytes[at] ^= 1 << e.below(8),
        1 => bytes[at] = e.u8(),
        2 => bytes.truncate(at),
        3 => {
            bytes.remove(at);
        }
        4 => bytes.insert(at, e.u8()),
        _ => {
            // Repeat some bytes. They are no whole FPDUs, whose lengths are multiples of 4: a
            // Write that comes twice is placed twice, whatever the CRC.
            let end = (at + 1 + e.below(60) as usize).min(bytes.len());
            let end = end - usize::from((end - at) % 4 == 0);
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

/// Damages an FPDU, mostly its headers, and then corrects length, pad and CRC.
fn forge(fpdu: &[u8], e: &mut Entropy) -> Vec<u8> {
    let len = usize::from(u16::from_be_bytes([fpdu[0], fpdu[1]]));
    let mut ulpdu = fpdu[2..2 + len].to_vec();
    for _ in 0..1 + e.below(3) {
        if ulpdu.is_empty() {
            break;
        }
        if e.below(4) == 0 {
            damage(&mut ulpdu, e);
        } else if let Some(byte) = ulpdu.get_mut(e.below(46) as usize) {
            *byte = match e.below(4) {
                0 => *byte ^ (1 << e.below(8)),
                1 => byte.wrapping_add(1),
                2 => byte.wrapping_sub(1),
                _ => e.u8(),
            };
        }
    }
    ulpdu.truncate(usize::from(u16::MAX));
    let mut forged = (ulpdu.len() as u16).to_be_bytes().to_vec();
    forged.extend(ulpdu);
    while forged.len() % 4 != 0 {
        forged.push(0);
    }
    let crc = !crc32c(!0, &forged);
    forged.extend(crc.to_le_bytes());
    forged
}

/// Sends an FPDU, perhaps a forged one.
fn send(end: &mut End, e: &mut Entropy, rates: Rates, out: &mut Outcome) -> bool {
    let before = end.wire.len();
    if !transmit(end, e, &mut Summary::default()) {
        return false;
    }
    if e.u8() < rates.fpdu {
        let fpdu: Vec<u8> = end.wire.drain(before..).collect();
        end.wire.extend(forge(&fpdu, e));
        out.damages += 1;
    }
    true
}

/// Delivers bytes from the wire, perhaps after damage to them.
fn deliver(
    wire: &mut VecDeque<u8>,
    to: &mut End,
    e: &mut Entropy,
    rates: Rates,
    out: &mut Outcome,
) -> bool {
    if !wire.is_empty() && e.u8() < rates.stream {
        let mut bytes: Vec<u8> = wire.drain(..).collect();
        damage(&mut bytes, e);
        wire.extend(bytes);
        out.damages += 1;
    }
    let (faulted, calls) = (to.peer.is_faulted(), to.peer.calls());
    let passed = pass(wire, &mut to.peer, e);
    if faulted {
        assert_eq!(
            to.peer.calls(),
            calls,
            "the handler is called after a fault"
        );
    }
    passed
}

/// Runs two peers. Panics if one violates an invariant, whatever it receives. With `honest` peers
/// CRCs are on, and only the stream is damaged: then each end must also deliver only correct data.
pub fn run(e: &mut Entropy, most: u32, honest: bool) -> Outcome {
    let crc = honest || e.below(4) != 0;
    let (mut a, mut b) = ends(e, crc, most);
    let rates = Rates {
        stream: e.u8() & 15,
        fpdu: if honest { 0 } else { e.u8() & 63 },
    };
    let mut out = Outcome::default();
    let mut idle = 0;
    while idle < 16 {
        let progress = match e.below(4) {
            0 => send(&mut a, e, rates, &mut out),
            1 => send(&mut b, e, rates, &mut out),
            2 => deliver(&mut a.wire, &mut b, e, rates, &mut out),
            _ => deliver(&mut b.wire, &mut a, e, rates, &mut out),
        };
        idle = if progress { 0 } else { idle + 1 };
    }
    check(&mut a, &b, 0, honest);
    check(&mut b, &a, 1, honest);
    for end in [&mut a, &mut b] {
        out.faults += u32::from(end.peer.is_faulted());
        out.operations += end.peer.begun;
        let node = end.peer.node();
        out.completed += node.received.len() + node.reads.len() + node.writes as usize;
        out.completed += node.fetched.len();
    }
    out
}

/// Checks the invariants of an end, which hold whatever it received.
fn check(this: &mut End, other: &End, name: u32, honest: bool) {
    let reads = this.expected.reads.clone();
    let sunk = this.expected.sunk.clone();
    let fetched = this.expected.fetched.clone();
    let node = this.peer.node();
    assert!(
        node.regions[&READABLE].data == pattern(READABLE ^ name, SIZE),
        "read-only memory has changed"
    );
    assert!(reads.starts_with(&node.reads), "reads or their order");
    let sink = &node.regions[&SINK].data;
    assert!(
        sink[sunk.len()..].iter().all(|b| *b == BLANK),
        "bytes beyond the end of the reads have changed"
    );
    assert!(node.irq.len() <= node.ird, "requests beyond IRD");
    assert!(node.fetched.len() <= fetched.len(), "Atomic Operations");
    if honest {
        let sent = &other.expected.received;
        assert!(sent.starts_with(&node.received), "messages or their order");
        assert!(node.writes <= other.expected.writes, "writes");
        assert!(fetched.starts_with(&node.fetched), "original values");
        let done = node.reads.iter().sum::<u32>() as usize;
        assert!(sink[..done] == sunk[..done], "bytes of completed reads");
    }
}
