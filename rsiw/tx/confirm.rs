// SPDX-License-Identifier: GPL-2.0

//! Asks the peer to confirm Writes, for programs that expect InfiniBand: `queue/sq/placed.rs` has
//! what waits for that, and why.
//!
//! A Read of no bytes follows the last request that is posted, or so many bytes that the pipe would
//! run dry if the program waited for the answer before it posts more, if no answer is awaited. Or
//! it goes before a Send, whose receive the program may post only when a Write before has
//! completed. A program that keeps many requests under way has them confirmed in parts, each by a
//! Read: while the answer to one comes back, the others are sent.
//!
//! Sends that have an end (`queue/rnr.rs`) are confirmed likewise. The Read before the first of
//! them tells the peer how often they are tried again. Between Sends alone, one is under way at a
//! time: each would have to wait for the answer of one before otherwise.
//!
//! Such programs take the first completion in error for the cause. So a request that cannot be sent
//! fails only when all before it have completed; and an end that terminates the stream, or leaves
//! it, first answers the peer's Reads of no bytes that it has received.

use super::{outcome::Failed, Tx};
use crate::{
    queue::{reads::CONFIRMING, Queues, Seq},
    transport::Transport,
    wr::SendOp,
};
use iwarp::{conn::rnr::RnrRetry, TaggedOffset};

/// Bytes of Writes after which tx asks although more requests are posted.
const MUCH: u32 = 128 << 10;

/// Reads that may be under way where the next one follows the last request that is posted, and
/// requests before it are no part. A program may end when it has heard of that request by the
/// peer, so it is asked for soon; but there has to be room for parts.
const LAST: u32 = 2;

/// What the peer has not been asked to confirm.
pub(super) struct Unconfirmed {
    /// The position behind the last request that waits for it.
    end: Option<Seq>,
    /// There are Writes, whether or not a request waits for them.
    writes: bool,
    /// Bytes of these, and of Sends that wait.
    bytes: u32,
    /// Requests that bytes are counted of.
    count: u32,
    /// The most requests that the program has had under way of late.
    window: u32,
}

/// What has to be sent before a request.
pub(super) enum Before {
    Nothing,
    /// A Read that confirms, which has begun.
    Read,
    /// Such a Read, when there is room for one: an answer wakes tx.
    Room,
}

impl Unconfirmed {
    pub(super) const NOTHING: Self = Self {
        end: None,
        writes: false,
        bytes: 0,
        count: 0,
        window: 0,
    };

    /// A request is noted, with `len` bytes, when `under_way` have not completed.
    fn add(&mut self, len: u32, under_way: u32) {
        self.bytes = self.bytes.saturating_add(len);
        self.count = self.count.saturating_add(1);
        self.window = self.window.max(under_way);
    }

    /// A request has begun whose answer confirms all that is noted. What a program has had under
    /// way once is forgotten slowly.
    #[inline]
    pub(super) fn asked(&mut self) {
        *self = Self {
            window: self.window - self.window.div_ceil(8),
            ..Self::NOTHING
        };
    }

    /// Whether a request waits.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.end.is_some()
    }

    /// Whether requests wait that should not wait until tx finds no other.
    #[inline]
    pub(super) fn is_much(&self) -> bool {
        (self.bytes >= MUCH || self.is_part()) && self.is_due()
    }

    /// Whether they are a part of what the program has under way, as large as that of each Read.
    fn is_part(&self) -> bool {
        self.count > self.window / CONFIRMING
    }
}

impl Tx {
    /// Notes the request at `seq`, in `wr`, before it begins.
    pub(super) fn note_unconfirmed(&mut self, queues: &Queues, seq: Seq) {
        let (wr, new) = (&self.wr, &mut self.unconfirmed);
        if wr.op.is_answered() {
            return;
        }
        let takes_receive = wr.op.takes_receive();
        let may_fail = takes_receive && self.told != RnrRetry::FOR_EVER;
        let is_write = matches!(wr.op, SendOp::Write | SendOp::WriteImm);
        new.writes |= is_write;
        if is_write || may_fail {
            let before = seq.wrapping_sub(queues.sq.oldest());
            new.add(wr.len, before.saturating_add(1));
        }
        if may_fail || new.writes && wr.signalled {
            new.end = Some(seq.wrapping_add(1));
            let send = takes_receive.then_some(self.send_msn);
            queues.sq.await_placement(seq, new.writes, send);
        }
    }

    /// Looks at what has to be sent before the request at `seq`, in `wr`, which takes a receive of
    /// the peer and is the next to begin; begins it.
    #[inline]
    pub(super) fn before_send(&mut self, queues: &Queues, seq: Seq) -> Result<Before, Failed> {
        if !self.unconfirmed.is_due() && queues.rnr.retry() == self.told {
            return Ok(Before::Nothing);
        }
        // What the peer has no receive for holds up all behind it.
        let must = self.unconfirmed.writes || queues.rnr.retry() != self.told;
        let (most, waits) = if must { (CONFIRMING, true) } else { (1, false) };
        if queues.sq.may_confirm(most, waits) {
            let end = self.unconfirmed.end.unwrap_or(seq);
            self.ask(queues, end).map(|()| Before::Read)
        } else if must {
            Ok(Before::Room)
        } else {
            Ok(Before::Nothing)
        }
    }

    /// Begins a Read that confirms, if requests wait for one and few others are under way: none;
    /// fewer than [`LAST`] if tx `waits`, as it has nothing else to send; fewer than [`CONFIRMING`]
    /// if the requests are a part for themselves. If tx waits and may not begin one now, it is
    /// woken when it may.
    #[cold]
    pub(super) fn confirm(&mut self, queues: &Queues, waits: bool) -> Result<bool, Failed> {
        let new = &self.unconfirmed;
        let most = match (new.is_part(), waits) {
            (true, _) => CONFIRMING,
            (false, true) => LAST,
            (false, false) => 1,
        };
        match new.end {
            Some(end) if queues.sq.may_confirm(most, waits) => self.ask(queues, end).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Begins a Read that confirms what is before `end`, and tells the peer how often Sends behind
    /// it are tried again, if it does not know.
    #[cold]
    fn ask(&mut self, queues: &Queues, end: Seq) -> Result<(), Failed> {
        let retry = queues.rnr.retry();
        let tells = if retry == self.told {
            TaggedOffset(0)
        } else {
            retry.to_offset()
        };
        self.told = retry;
        self.empty_read(queues, Some(end), tells)
    }

    /// Keeps a request that cannot be sent until all before it have completed. Returns it if it
    /// fails at once: the device does not confirm, or a part of its message is sent.
    #[cold]
    pub(super) fn keep_failing(&mut self, failed: Failed) -> Option<Failed> {
        if !self.cfg.confirms || self.current.active || failed.seq.is_none() {
            return Some(failed);
        }
        self.failing = Some(failed);
        None
    }

    /// The request that was kept, if all before it have completed. If not, an answer wakes tx.
    #[inline]
    pub(super) fn take_failing(&mut self, queues: &Queues) -> Option<Failed> {
        let seq = self.failing.as_ref()?.seq?;
        if !queues.sq.all_before(seq) {
            return None;
        }
        self.failing.take()
    }

    /// Answers the peer's Reads of no bytes that come next, if no message is under way. The batch
    /// is empty, and gets the answers.
    #[cold]
    pub(super) fn answer_empty(&mut self, queues: &Queues, transport: &impl Transport) {
        if !self.cfg.peer_confirms || self.current.active {
            return;
        }
        while let Some(read) = queues.inbound.pop_empty() {
            let answered = self.respond(Some(read)).is_ok() && self.append(transport).is_ok();
            self.current.end();
            if !answered {
                break;
            }
            queues.inbound.answered();
        }
    }

    /// As [`Self::answer_empty`], before this end leaves the stream: what the peer has written is
    /// placed. [`Tx::leave`] has the answers then. Context: any.
    pub(crate) fn last_answers(&mut self, queues: &Queues, transport: &impl Transport) {
        if self.batch.is_empty() && !self.terminated && !self.fin && queues.may_send() {
            self.batch.set_atomic(true);
            self.answer_empty(queues, transport);
            self.answered_last = !self.batch.is_empty();
        }
    }
}
