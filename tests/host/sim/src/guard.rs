// SPDX-License-Identifier: GPL-2.0

//! Checks the engine's contract with a handler: which calls it makes, and in which order.

use iwarp::rx::{
    Event, Fault, FaultKind, FpduAssembler, Handler, Placement, ReadExpect, Receiver, Refusal,
    Target,
};
use iwarp::{SharedByte, TaggedOffset};

use crate::{bytes, shared};

/// A call of a handler.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// `begin_segment`.
    Begin(Placement),
    /// `place`; consecutive pieces are joined.
    Place(Vec<u8>),
    /// `end_segment`.
    End(Placement),
    /// `deliver`.
    Deliver(Event),
}

/// Wraps a handler: records its calls, and panics at a call that the contract forbids.
#[derive(Debug)]
pub struct Guard<H> {
    /// The handler.
    pub inner: H,
    /// All calls so far.
    pub calls: Vec<Call>,
    /// The open segment, and how many bytes of it have been placed.
    open: Option<(Placement, u32)>,
    /// The segment of the last `begin_segment`, which may have been told to wait.
    last: Option<Placement>,
    /// That segment waits. Only a repeated `begin_segment` for it is allowed.
    waits: bool,
    /// A call was refused.
    refused: bool,
    /// An RDMA Write is incomplete; and the Send under way, or the last, began behind it.
    write: bool,
    behind: bool,
    /// CRCs are in use.
    crc: bool,
    /// The receiver gets only whole FPDUs, so it verifies each CRC before it places anything.
    pub whole: bool,
    /// Segments that `place_next` has placed.
    pub continued: u32,
}

impl<H: Handler> Guard<H> {
    /// Guards `inner`.
    pub fn new(inner: H, crc: bool) -> Self {
        Self {
            inner,
            calls: Vec::new(),
            open: None,
            last: None,
            waits: false,
            refused: false,
            write: false,
            behind: false,
            crc,
            whole: false,
            continued: 0,
        }
    }

    fn note<T>(&mut self, result: Result<T, Refusal>) -> Result<T, Refusal> {
        self.refused |= result.is_err();
        result
    }
}

impl<H: Handler> Handler for Guard<H> {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        assert!(self.crc, "crc32c although CRCs are off");
        assert!(!self.waits, "crc32c while a segment waits");
        assert!(!data.is_empty(), "crc32c of no bytes");
        self.inner.crc32c(crc, data)
    }

    fn crc32c_shared(&mut self, crc: u32, data: &[SharedByte]) -> u32 {
        assert!(self.crc, "crc32c although CRCs are off");
        assert!(!self.waits, "crc32c while a segment waits");
        assert!(!data.is_empty(), "crc32c of no bytes");
        self.inner.crc32c_shared(crc, data)
    }

    fn load<const N: usize>(&mut self, shared: &[SharedByte; N]) -> [u8; N] {
        self.inner.load(shared)
    }

    fn copy(&mut self, to: &[SharedByte], from: &[SharedByte]) {
        assert_eq!(to.len(), from.len(), "copy to a buffer of another size");
        self.inner.copy(to, from);
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        assert!(!self.refused, "expected_read after refusal");
        self.inner.expected_read()
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        assert!(!self.refused, "begin_segment after refusal");
        assert!(
            !self.waits || self.last == Some(*p),
            "begin_segment of another segment than the one that waits"
        );
        assert!(self.open.is_none(), "begin_segment within segment");
        assert!(p.len <= u32::from(iwarp::MAX_ULPDU));
        match p.target {
            Target::Recv { offset } => {
                assert_eq!(p.first, offset == 0 && p.first);
                assert!(offset.checked_add(p.len).is_some());
            }
            Target::Immediate => assert!(p.first && p.len == 0, "more than once"),
            Target::Write { to, .. } => {
                assert!(p.len != 0, "empty tagged segment");
                assert!(to.0.checked_add(u64::from(p.len)).is_some(), "TO wraps");
            }
            Target::ReadResponse { offset } => {
                assert!(p.len != 0, "empty tagged segment");
                assert_eq!(p.first, offset == 0);
            }
        }
        let result = self.inner.begin_segment(p);
        self.last = Some(*p);
        self.waits = result == Err(Refusal::Wait);
        if self.waits {
            return result;
        }
        self.calls.push(Call::Begin(*p));
        match p.target {
            Target::Write { .. } if p.first => (self.write, self.behind) = (true, false),
            Target::Recv { .. } | Target::Immediate if p.first => self.behind = self.write,
            _ => {}
        }
        if result.is_ok() && p.target != Target::Immediate {
            self.open = Some((*p, 0));
        }
        self.note(result)
    }

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        assert!(!self.refused, "place after refusal");
        assert!(!self.waits, "place while the segment waits");
        assert!(
            self.crc || crc.is_none(),
            "place with CRC although CRCs are off"
        );
        if self.whole {
            assert!(crc.is_none(), "place before the CRC is verified");
        }
        assert!(!data.is_empty(), "place of no bytes");
        let (p, placed) = self.open.as_mut().expect("place without segment");
        *placed += data.len() as u32;
        assert!(*placed <= p.len, "placed beyond the segment");
        match self.calls.last_mut() {
            Some(Call::Place(all)) => all.extend(bytes(data)),
            _ => self.calls.push(Call::Place(bytes(data))),
        }
        let result = self.inner.place(data, crc);
        self.note(result)
    }

    fn place_next(&mut self, data: &[SharedByte]) -> bool {
        assert!(!self.refused, "place_next after refusal");
        assert!(!self.waits, "place_next while a segment waits");
        assert!(self.open.is_none(), "place_next within segment");
        assert!(!data.is_empty(), "place_next of no bytes");
        assert!(
            matches!(self.calls.last(), Some(Call::End(_))),
            "place_next that continues no segment"
        );
        let before = self.last.expect("place_next without segment");
        assert!(!before.last, "place_next after the last segment");
        assert_eq!(
            before.len as usize,
            data.len(),
            "place_next of another size"
        );
        let target = match before.target {
            Target::Immediate => panic!("place_next of Immediate Data"),
            Target::Recv { offset } => Target::Recv {
                offset: offset + before.len,
            },
            Target::ReadResponse { offset } => Target::ReadResponse {
                offset: offset + before.len,
            },
            Target::Write { stag, to } => Target::Write {
                stag,
                to: TaggedOffset(to.0 + u64::from(before.len)),
            },
        };
        if let Target::Write { to, .. } = target {
            assert!(to.0.checked_add(data.len() as u64).is_some(), "TO wraps");
        }
        if !self.inner.place_next(data) {
            return false;
        }
        // To a test it is what the three calls would have been.
        let p = Placement {
            target,
            first: false,
            ..before
        };
        self.last = Some(p);
        self.continued += 1;
        self.calls.push(Call::Begin(p));
        self.calls.push(Call::Place(bytes(data)));
        self.calls.push(Call::End(p));
        true
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        assert!(!self.refused, "end_segment after refusal");
        let (p, placed) = self.open.take().expect("end_segment without segment");
        assert_eq!(placed, p.len, "segment ends early");
        self.calls.push(Call::End(p));
        let result = self.inner.end_segment();
        self.note(result)
    }

    fn deliver(&mut self, e: Event) -> Result<(), Refusal> {
        assert!(!self.refused, "deliver after refusal");
        assert!(!self.waits, "deliver while a segment waits");
        assert!(self.open.is_none(), "deliver within segment");
        match e {
            Event::Write { .. } => self.write = false,
            Event::Recv { .. } | Event::RecvImmediate { .. } | Event::Immediate { .. } => assert!(
                !(self.write && self.behind),
                "Send before the Write that it came behind"
            ),
            _ => {}
        }
        self.calls.push(Call::Deliver(e));
        let result = self.inner.deliver(e);
        self.note(result)
    }
}

/// A handler without memory. It accepts every call, except one that it may be told to refuse.
#[derive(Clone, Debug)]
pub struct Any {
    /// The number of the call to refuse, if that call can be refused.
    pub refuse_at: Option<u32>,
    /// The reason for the refusal.
    pub why: Refusal,
    /// The answer to `expected_read`.
    pub expect: Option<ReadExpect>,
    /// Calls so far.
    pub count: u32,
    /// How often each Send has to wait for its receive before it is accepted.
    pub waits: u32,
    /// How often the current Send has waited.
    pub waited: u32,
    /// `place_next` places segments.
    pub continues: bool,
}

impl Any {
    /// Accepts everything.
    pub fn accepting() -> Self {
        Self {
            refuse_at: None,
            why: Refusal::Local,
            expect: None,
            count: 0,
            waits: 0,
            waited: 0,
            continues: true,
        }
    }

    fn call(&mut self) -> Result<(), Refusal> {
        let at = self.count;
        self.count += 1;
        match self.refuse_at {
            Some(n) if n == at => Err(self.why),
            _ => Ok(()),
        }
    }
}

impl Handler for Any {
    fn crc32c(&mut self, crc: u32, data: &[u8]) -> u32 {
        crate::crc32c(crc, data)
    }

    fn expected_read(&mut self) -> Option<ReadExpect> {
        self.expect
    }

    fn begin_segment(&mut self, p: &Placement) -> Result<(), Refusal> {
        let may_wait = p.first && matches!(p.target, Target::Recv { .. } | Target::Immediate);
        if may_wait && self.waited < self.waits {
            self.waited += 1;
            return Err(Refusal::Wait);
        }
        self.waited = 0;
        self.call()
    }

    fn place(&mut self, data: &[SharedByte], crc: Option<u32>) -> Result<u32, Refusal> {
        Ok(crc.map_or(0, |crc| self.crc32c_shared(crc, data)))
    }

    /// Counts as the two calls that could be refused. Refuses nothing itself.
    fn place_next(&mut self, _: &[SharedByte]) -> bool {
        let refuses = |n: u32| n == self.count || n == self.count + 1;
        if !self.continues || self.refuse_at.is_some_and(refuses) {
            return false;
        }
        self.count += 2;
        true
    }

    fn end_segment(&mut self) -> Result<(), Refusal> {
        self.call()
    }

    fn deliver(&mut self, _: Event) -> Result<(), Refusal> {
        self.call()
    }
}

/// The result of receiving a stream.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Calls of the handler.
    pub calls: Vec<Call>,
    /// Whether and how the stream failed.
    pub result: Result<(), Fault>,
    /// FPDUs that were received in full and without a fault.
    pub fpdus: u64,
    /// The stream ended between FPDUs.
    pub at_boundary: bool,
    /// `mid_message()` at the end of the stream.
    pub mid_message: bool,
}

impl Outcome {
    /// Checks that `self`, the result for a stream that arrived in one piece, equals `other`, the
    /// result for the same stream in other pieces. One difference is allowed: of an FPDU with a
    /// wrong CRC, a piece may have been placed, and the handler may have refused it, before the CRC
    /// arrived.
    pub fn check_pieces(&self, other: &Self) {
        let damaged = self.result.is_err_and(|f| f.kind() == FaultKind::Crc);
        if !damaged {
            assert_eq!(self, other);
            return;
        }
        let (same, more) = other.calls.split_at(self.calls.len());
        assert_eq!(self.calls, same);
        assert!(
            !more
                .iter()
                .any(|c| matches!(c, Call::End(_) | Call::Deliver(_))),
            "more than placed before the CRC was verified"
        );
        let kind = other.result.map_err(|f| f.kind());
        assert!(
            matches!(kind, Err(FaultKind::Crc | FaultKind::Local)),
            "{kind:?}"
        );
    }
}

/// Feeds `stream` to a receiver in pieces of the lengths that `cut` returns. Bytes that the
/// receiver does not consume are passed again, together with the next piece.
pub fn feed<H: Handler>(
    rx: Receiver,
    crc: bool,
    inner: H,
    stream: &[u8],
    cut: impl FnMut() -> usize,
) -> Outcome {
    feed_shared(rx, crc, inner, &shared(stream), cut)
}

/// As [`feed`], of bytes that others may write to meanwhile.
pub fn feed_shared<H: Handler>(
    rx: Receiver,
    crc: bool,
    inner: H,
    stream: &[SharedByte],
    cut: impl FnMut() -> usize,
) -> Outcome {
    feed_by(rx, Guard::new(inner, crc), stream, cut, Receiver::receive)
}

/// As [`feed`], but joins the pieces, so that the receiver gets whole FPDUs.
pub fn feed_whole<H: Handler>(
    rx: Receiver,
    crc: bool,
    inner: H,
    stream: &[u8],
    cut: impl FnMut() -> usize,
) -> Outcome {
    feed_whole_shared(rx, crc, inner, &shared(stream), cut)
}

/// As [`feed_whole`], of bytes that others may write to meanwhile.
pub fn feed_whole_shared<H: Handler>(
    rx: Receiver,
    crc: bool,
    inner: H,
    stream: &[SharedByte],
    cut: impl FnMut() -> usize,
) -> Outcome {
    let room = shared(&[0; FpduAssembler::MAX_FPDU]);
    let mut whole = FpduAssembler::new(room).expect("room");
    let mut guard = Guard::new(inner, crc);
    guard.whole = true;
    feed_by(rx, guard, stream, cut, |rx, chunk, guard| {
        whole.receive(rx, chunk, guard)
    })
}

fn feed_by<H: Handler>(
    mut rx: Receiver,
    mut guard: Guard<H>,
    stream: &[SharedByte],
    mut cut: impl FnMut() -> usize,
    mut receive: impl FnMut(&mut Receiver, &[SharedByte], &mut Guard<H>) -> Result<usize, Fault>,
) -> Outcome {
    let mut result = Ok(());
    let mut rest = stream;
    while !rest.is_empty() && result.is_ok() {
        let n = cut().clamp(1, rest.len());
        let taken = receive(&mut rx, &rest[..n], &mut guard);
        rest = &rest[*taken.as_ref().unwrap_or(&n)..];
        assert!(
            guard.waits || taken.is_err() || taken == Ok(n),
            "bytes left"
        );
        result = taken.map(|_| ());
        // After the last byte a waiting segment is tried again, as the driver does when a receive
        // is posted.
        while guard.waits && rest.is_empty() && result.is_ok() {
            result = receive(&mut rx, &[], &mut guard).map(|_| ());
        }
        if let Err(fault) = result {
            let calls = guard.calls.len();
            assert_eq!(rx.receive(rest, &mut guard), Err(fault), "fault changes");
            assert_eq!(guard.calls.len(), calls, "handler called after a fault");
            let term = rx.terminate_for(&fault);
            assert_eq!(term.map(|t| t.code()), fault.term());
        }
    }
    Outcome {
        calls: guard.calls,
        result,
        fpdus: rx.fpdus(),
        at_boundary: rx.at_boundary(),
        mid_message: rx.mid_message(),
    }
}
