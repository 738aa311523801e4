// SPDX-License-Identifier: GPL-2.0

//! RDMA Writes, and Sends, that complete when the peer has placed them.
//!
//! A Write completes when TCP has taken it, as on any iWARP device: the consumer has its buffer
//! back, and asks the peer if it wants to know more. Programs that were written for InfiniBand take
//! a completion for more than that. They tell the peer by other means that the data are there (a
//! message on a socket, a barrier over a third host), and the peer reads its memory. So on a device
//! of that type tx sends an RDMA Read of no bytes behind Writes. The peer answers it when it has
//! placed what came before, and not sooner (RFC 5040 section 5.5, rule 6), so the answer confirms
//! all Writes before it. That costs a round trip; and bandwidth where what the program has under
//! way does not fill one.
//!
//! Only a request that is signalled waits: the Write itself, or one behind Writes that are not.
//! A Read of the consumer confirms what is before it, too. Sends complete as ever, when TCP has
//! taken them and all before is complete; but those that fail where the peer has no receive in time
//! ([`rnr`](crate::queue)) have to wait for the peer, signalled or not.
//!
//! One TCP stream orders more than InfiniBand does: the answer is behind a Send of the peer that
//! waits for its receive here.

use super::{SendQueue, Seq, Slot, State};
use crate::{
    fifo::Fifo,
    queue::{
        reads::{OutstandingRead, CONFIRMING},
        BATCH,
    },
};
use iwarp::Msn;

/// What the peer is known to have placed.
pub(super) struct Placed {
    /// Tx confirms.
    on: bool,
    /// All before this position.
    before: Option<Seq>,
    /// Reads that tx has sent to confirm, and that wait for their answers.
    confirming: u32,
    /// Tx waits until there are fewer of these; 0 if it does not.
    wanted: u32,
}

impl Placed {
    /// Nothing, of a queue whose requests wait for it only if `on`.
    pub(super) const fn nothing(on: bool) -> Self {
        Self {
            on,
            before: None,
            confirming: 0,
            wanted: 0,
        }
    }

    /// Whether the request at `seq`, which has not completed, is before that position.
    pub(super) fn is_before(&self, seq: Seq) -> bool {
        // CAST: The distance, as a signed number: no queue has half of all positions.
        self.before
            .is_some_and(|before| (seq.wrapping_sub(before) as i32) < 0)
    }

    /// Forgets the position when the queue's first request is not before it any more.
    #[inline]
    pub(super) fn passed(&mut self, head: Seq) {
        if self.before.is_some() && !self.is_before(head) {
            self.before = None;
        }
    }

    /// How many of `reads` the consumer has posted.
    pub(super) fn of_consumer(&self, reads: &Fifo<OutstandingRead>) -> u32 {
        reads.len().saturating_sub(self.confirming)
    }

    /// Tx begins a Read that confirms.
    pub(super) fn confirmation_begins(&mut self) {
        self.confirming += 1;
    }

    /// The answer to `read` has come: what was sent before it is placed. Returns whether tx waits
    /// for that.
    #[inline]
    pub(super) fn answered(&mut self, read: &OutstandingRead) -> bool {
        if !self.on {
            return false;
        }
        if read.confirms.is_some() {
            self.confirming = self.confirming.saturating_sub(1);
        }
        let before = read.confirms.or(read.seq);
        self.before = before.or(self.before);
        let wakes = self.confirming < self.wanted;
        if wakes {
            self.wanted = 0;
        }
        wakes
    }
}

impl State {
    /// The request at `failed` fails. Takes what is before it for sent if the peer has placed it:
    /// TCP may have taken a part of a batch, which does not count before it has all. Context: tx
    /// has stopped.
    pub(super) fn send_placed(&mut self, failed: Seq) {
        // CAST: The distance, as a signed number.
        let is_beyond = |sent: Seq| failed.wrapping_sub(sent) as i32 > 0;
        if self.placed.before == Some(failed) && is_beyond(self.sent) {
            self.sent = failed;
        }
    }
}

impl SendQueue {
    /// Has the request at `seq` wait until the peer has placed what is sent before its end, Writes
    /// among that if `behind_writes`. If it takes a receive, it is the message `send`. Context: tx,
    /// which has pulled it and not yet sent it.
    pub(crate) fn await_placement(&self, seq: Seq, behind_writes: bool, send: Option<Msn>) {
        let slot = self.slot(seq);
        slot.set(Slot {
            unplaced: true,
            behind_writes,
            // CAST: No queue has as many requests as half a number counts.
            msn: send.map(|msn| msn.0 as u16),
            ..slot.get()
        });
    }

    /// Whether tx may send a Read that confirms: fewer than `most` are under way, [`CONFIRMING`]
    /// at most. If not, and tx `waits` for that, an answer wakes it. Context: tx.
    pub(crate) fn may_confirm(&self, most: u32, waits: bool) -> bool {
        let placed = &mut self.state.lock().placed;
        let most = most.min(CONFIRMING);
        let may = placed.confirming < most;
        if waits && !may {
            // It may have asked before, for what goes before a Send.
            placed.wanted = placed.wanted.max(most);
        }
        may
    }

    /// Whether all requests before `seq` have completed. If not, an answer of the peer wakes tx.
    /// Context: tx.
    #[cold]
    pub(crate) fn all_before(&self, seq: Seq) -> bool {
        let st = &mut *self.state.lock();
        let all = self.oldest() == seq;
        st.tx_waits |= !all;
        all
    }

    /// The peer has refused the Read, atomic operation or Send at `seq`, in its turn: what was sent
    /// before is placed, and completes when the queue is flushed. Context: any.
    #[cold]
    pub(crate) fn refused(&self, seq: Seq) {
        self.state.lock().placed.before = Some(seq);
    }

    /// The peer has refused a Write. Returns the request that fails: the first that waits for a
    /// confirmation of Writes, as nothing tells which Write it was. Context: rx.
    #[cold]
    pub(crate) fn refused_write(&self) -> Option<Seq> {
        let Some(seq) = self.find_unplaced(|slot| slot.behind_writes) else {
            // The Writes are not signalled, and a Read behind them has no answer yet.
            return self.find_unplaced(|_| true);
        };
        let st = &mut *self.state.lock();
        // Since the last answer no Write was sent before `seq` but those that it waits for. So
        // Sends before these are placed, unless the answer to a Read before them has not come. (The
        // slot of a request that is not sent may not be filled yet.)
        // CAST: The distance, as a signed number.
        let is_behind = |at: Seq| at.wrapping_sub(seq) as i32 > 0;
        let first = st.reads.front();
        let answered = first.is_none_or(|read| read.confirms.or(read.seq).is_some_and(is_behind));
        if answered && is_behind(st.sent) {
            st.placed.before = Some(seq);
        }
        Some(seq)
    }

    /// The request that the message `msn` carries out, if it takes a receive and waits for that.
    /// Context: any.
    #[cold]
    pub(crate) fn unplaced_send(&self, msn: Msn) -> Option<Seq> {
        // CAST: As in `await_placement`.
        self.find_unplaced(|slot| slot.msn == Some(msn.0 as u16))
    }

    /// The first request that waits for a confirmation and is as `is` says. All that the queue
    /// holds are looked at, a batch of them in one hold of the lock. Context: any.
    #[cold]
    fn find_unplaced(&self, is: impl Fn(&Slot) -> bool) -> Option<Seq> {
        let mut at = self.oldest();
        for _ in 0..=self.size / BATCH {
            let st = self.state.lock();
            let (head, tail) = (self.oldest(), self.tail());
            // CAST: The distance, as a signed number: `at` may have completed meanwhile.
            let from = (at.wrapping_sub(head) as i32).max(0).unsigned_abs();
            let to = tail.wrapping_sub(head).min(from.saturating_add(BATCH));
            let found = (from..to).map(|i| head.wrapping_add(i)).find(|&seq| {
                let slot = self.slot(seq).get();
                slot.unplaced && !st.placed.is_before(seq) && is(&slot)
            });
            if found.is_some() {
                return found;
            }
            at = head.wrapping_add(to);
        }
        None
    }
}
