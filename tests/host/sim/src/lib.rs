// SPDX-License-Identifier: GPL-2.0

//! Simulation that the property tests and the fuzzers share.
//!
//! * [`mpa`]: an MPA receiver that shares no code with the engine, and understands markers.
//! * [`guard`]: a handler that checks the engine's contract with handlers.
//! * [`pair`]: two engines, each with memory and queues, that run scripts of operations over a
//!   simulated wire.
//! * [`mutant`]: the same, with a wire or peers that damage data.
//! * [`setup`]: connection setup of two engines.
//! * [`attempt`]: attempts to connect in virtual time.
//! * [`incoming`]: connections that a listener has accepted, in virtual time.
//! * [`dial`]: attempts to connect to a listener, both ends in virtual time.
//! * [`established`]: machines behind a setup.
//! * [`conn`]: established connections in virtual time, over a network that loses and breaks;
//!   [`schedule`]: random ones.
//!
//! All decisions come from an [`Entropy`], so a run can be repeated, shrunk, and driven by a
//! fuzzer.

use core::sync::atomic::Ordering;

use iwarp::conn::{Input, Machine, Rule, Seen};
use iwarp::rx::{Receiver, RxConfig};
use iwarp::SharedByte;

pub mod attempt;
pub mod conn;
pub mod dial;
pub mod established;
pub mod guard;
pub mod incoming;
pub mod mpa;
pub mod mutant;
pub mod node;
pub mod pair;
pub mod peer;
pub mod schedule;
pub mod setup;
pub mod stream;

/// A receiver that allows the messages of RFC 7306, and Sends with immediate data.
pub fn receiver(crc: bool) -> Receiver {
    let mut rx = Receiver::new(RxConfig { crc });
    rx.allow_extensions();
    rx.allow_send_immediate();
    rx
}

/// A received stream of these bytes.
pub fn shared(bytes: &[u8]) -> Vec<SharedByte> {
    bytes.iter().map(|byte| SharedByte::new(*byte)).collect()
}

/// The bytes of a received stream, or of a part of it.
pub fn bytes(shared: &[SharedByte]) -> Vec<u8> {
    let load = |byte: &SharedByte| byte.load(Ordering::Relaxed);
    shared.iter().map(load).collect()
}

/// Gives an input to a connection's machine, which must go by the table of transitions. Returns the
/// rule.
pub fn follow(machine: &mut Machine, input: Input, seen: &Seen) -> Option<&'static Rule> {
    let from = machine.stage();
    let Some(rule) = machine.handle(input, seen) else {
        assert_eq!(machine.stage(), from, "{input:?}");
        return None;
    };
    assert!(rule.from.contains(&from), "{from:?}: {rule:?}");
    assert!(
        rule.on.contains(&&*format!("{input:?}")),
        "{input:?}: {rule:?}"
    );
    assert_eq!(rule.to, machine.stage(), "{rule:?}");
    Some(rule)
}

/// CRC32c, with a table.
pub fn crc32c(mut crc: u32, data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ if crc & 1 != 0 { 0x82f6_3b78 } else { 0 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    for b in data {
        crc = (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ *b)];
    }
    crc
}

/// A source of decisions: given bytes, and after them a fixed pseudo-random sequence.
#[derive(Clone, Debug)]
pub struct Entropy {
    data: Vec<u8>,
    at: usize,
    state: u64,
}

impl Entropy {
    /// Decisions from `data`.
    pub fn new(data: &[u8]) -> Self {
        Self {
            data: data.to_vec(),
            at: 0,
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let b = self.data.get(self.at).copied();
        self.at += 1;
        b.unwrap_or_else(|| {
            self.state = self
                .state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(1);
            (self.state >> 56) as u8
        })
    }

    /// The next 16 bits.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> u32 {
        (u32::from(self.u16()) << 16) | u32::from(self.u16())
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u32) -> u32 {
        let r = if n <= 256 {
            u32::from(self.u8())
        } else {
            u32::from(self.u16())
        };
        r % n
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// A length up to `max`: often 0, 1 or small.
    pub fn len(&mut self, max: u32) -> u32 {
        match self.u8() % 8 {
            0 => 0,
            1 => 1,
            2..=4 => self.below(200.min(max) + 1),
            5..=6 => self.below(3000.min(max) + 1),
            _ => u32::from(self.u16()).min(max),
        }
    }

    /// Whether given bytes are left.
    pub fn is_fresh(&self) -> bool {
        self.at < self.data.len()
    }
}
