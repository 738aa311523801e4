// SPDX-License-Identifier: GPL-2.0

//! A handler that records its calls, and refuses one on demand.

use core::sync::atomic::Ordering;
use iwarp::rx::{
    Event, Fault, Handler, Placement, ReadExpect, Receiver, Refusal, RxConfig, Target,
};
use iwarp::{SharedByte, Stag, TaggedOffset, TermCode, Terminate};

use super::wire::{crc32c, Wire};

/// A kind of call that a handler can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// `begin_segment`.
    Begin,
    /// `place`.
    Place,
    /// `end_segment`.
    End,
    /// `deliver`.
    Deliver,
}

/// The handler of the test cases.
pub(crate) struct Probe {
    /// Segments that began.
    pub(crate) begun: u32,
    /// Bytes placed.
    pub(crate) placed: u32,
    /// Segments that ended.
    pub(crate) ended: u32,
    /// Messages delivered.
    pub(crate) delivered: u32,
    /// The last placement.
    pub(crate) placement: Option<Placement>,
    /// The last event.
    pub(crate) event: Option<Event>,
    /// All bytes placed, in order.
    pub(crate) data: Wire,
    /// Answer to `expected_read`.
    pub(crate) expect: Option<ReadExpect>,
    /// The call to refuse, and the reason.
    pub(crate) refuse: Option<(Call, Refusal)>,
    /// Accepts so many messages before it refuses one.
    pub(crate) refuse_from: u32,
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

impl Probe {
    /// A handler that refuses nothing.
    pub(crate) const fn new() -> Self {
        Self {
            begun: 0,
            placed: 0,
            ended: 0,
            delivered: 0,
            placement: None,
            event: None,
            data: Wire::new(),
            expect: None,
            refuse: None,
            refuse_from: 0,
        }
    }

    /// A handler that refuses this call.
    pub(crate) const fn refusing(call: Call, why: Refusal) -> Self {
        let mut probe = Self::new();
        probe.refuse = Some((call, why));
        probe
    }

    /// A handler with this RDMA Read outstanding.
    pub(crate) const fn reading(stag: u32, to: u64, len: u32) -> Self {
        let mut probe = Self::new();
        probe.expect = Some(ReadExpect {
            stag: Stag(stag),
            to: TaggedOffset(to),
            len,
        });
        probe
    }

    fn check(&self, call: Call) -> Result<(), Refusal> {
        match self.refuse {
            Some((c, why)) if c == call && self.delivered >= self.refuse_from => Err(why),
            _ => Ok(()),
        }
    }
}

impl Handler for Probe {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        crc32c(crc, data)
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        self.expect
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        self.check(Call::Begin)?;
        self.begun += 1;
        self.placement = Some(*p);
        Ok(())
    }

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        self.check(Call::Place)?;
        self.placed += data.len() as u32;
        for byte in data {
            self.data.push(byte.load(Ordering::Relaxed));
        }
        Ok(crc.map_or(0, |crc| self.crc32c_shared(crc, data)))
    }

    fn place_next(&mut self, _: &[SharedByte]) -> bool {
        false
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        self.check(Call::End)?;
        self.ended += 1;
        Ok(())
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        self.check(Call::Deliver)?;
        self.delivered += 1;
        self.event = Some(e);
        Ok(())
    }
}

/// A receiver that checks CRCs.
pub(crate) fn receiver() -> Receiver {
    Receiver::new(RxConfig { crc: true })
}

/// Has `rx` receive bytes, which nobody else writes to.
pub(crate) fn receive(rx: &mut Receiver, data: &[u8], probe: &mut Probe) -> Result<usize, Fault> {
    let room: [SharedByte; 1024] =
        core::array::from_fn(|at| SharedByte::new(*data.get(at).unwrap_or(&0)));
    rx.receive(room.get(..data.len()).unwrap_or_default(), probe)
}

fn verdict_of(mut rx: Receiver, stream: &Wire, probe: &mut Probe) -> Result<(), Fault> {
    receive(&mut rx, stream.get(), probe).map(|_| ())
}

fn terminate_of(mut rx: Receiver, stream: &Wire, probe: &mut Probe) -> Option<Terminate> {
    let fault = receive(&mut rx, stream.get(), probe).err()?;
    rx.terminate_for(&fault)
}

/// The result of this stream in a new receiver.
pub(crate) fn verdict(stream: &Wire, probe: &mut Probe) -> Result<(), Fault> {
    verdict_of(receiver(), stream, probe)
}

/// The Terminate code for this stream; `None` without a fault, or without a code.
pub(crate) fn code(stream: &Wire, probe: &mut Probe) -> Option<TermCode> {
    verdict(stream, probe).err().and_then(|f| f.term())
}

/// The Terminate for this stream.
pub(crate) fn terminate_for(stream: &Wire, probe: &mut Probe) -> Option<Terminate> {
    terminate_of(receiver(), stream, probe)
}

/// As the functions of the same names, of a receiver that allows the messages of RFC 7306.
pub(crate) mod extended {
    use super::{terminate_of, verdict_of, Fault, Probe, Receiver, TermCode, Terminate, Wire};

    /// A receiver that checks CRCs.
    pub(crate) fn receiver() -> Receiver {
        let mut rx = super::receiver();
        rx.allow_extensions();
        rx
    }

    /// The result of this stream in a new receiver.
    pub(crate) fn verdict(stream: &Wire, probe: &mut Probe) -> Result<(), Fault> {
        verdict_of(receiver(), stream, probe)
    }

    /// The Terminate code for this stream.
    pub(crate) fn code(stream: &Wire, probe: &mut Probe) -> Option<TermCode> {
        verdict(stream, probe).err().and_then(|f| f.term())
    }

    /// The Terminate for this stream.
    pub(crate) fn terminate_for(stream: &Wire, probe: &mut Probe) -> Option<Terminate> {
        terminate_of(receiver(), stream, probe)
    }
}

/// Placement in a receive buffer.
pub(crate) fn recv(offset: u32, len: u32, first: bool, last: bool) -> Placement {
    Placement {
        target: Target::Recv { offset },
        len,
        first,
        last,
    }
}
