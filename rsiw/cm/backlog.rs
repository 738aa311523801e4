// SPDX-License-Identifier: GPL-2.0

//! A listener's backlog: how many Requests are reported to the consumer and not answered, and which
//! one is reported next.
//!
//! The RDMA CM has room for as many events as the backlog says, and rejects what goes beyond
//! (`ucma_connect_event_handler()`, `cm_event_handler()`). It does not tell when a process has
//! taken an event, but an answer says as much. So no more Requests than the backlog are reported
//! and not answered. The others wait in their slots.
//!
//! Sources take turns: each has one Request in a round, and a source that comes, or comes again,
//! joins the next round. So a host with a hundred connections does not keep others waiting for all
//! of them. Requests of one source are reported in the order in which they came.

use super::silent::Source;
use core::mem::take;
use kernel::prelude::*;

struct One {
    serial: u64,
    source: Source,
    round: u64,
}

/// The Requests of a listener, but for those that are answered.
pub(super) struct Backlog {
    /// The most Requests that are reported and not answered.
    most: u32,
    /// Those that are.
    reported: u32,
    /// Nothing shows yet that the consumer still takes events, since room was made for as many
    /// again.
    stalled: bool,
    /// Those among `reported` that were rejected meanwhile.
    rejected: u32,
    /// Grows with each answer, and when those that are reported do not count any more.
    progress: u64,
    /// Grows when those that are reported do not count any more.
    epoch: u64,
    /// Those that wait to be reported, in the order in which they came.
    waiting: KVVec<One>,
    /// The round of the last Request that was reported.
    round: u64,
}

impl Backlog {
    /// Makes an empty backlog of `most` Requests, with room for `slots` that wait. Context:
    /// sleeping. Errors: `ENOMEM`.
    pub(super) fn new(most: u32, slots: u32) -> Result<Self> {
        Ok(Self {
            most,
            reported: 0,
            stalled: false,
            rejected: 0,
            progress: 0,
            epoch: 0,
            waiting: KVVec::with_capacity(slots as usize, GFP_KERNEL)?,
            round: 0,
        })
    }

    /// Has the Request of a connection wait. There is room for as many as the listener has slots.
    pub(super) fn wait(&mut self, serial: u64, source: Source) {
        let mut same = self.waiting.iter().rev().filter(|one| one.source == source);
        let round = same.next().map_or(self.round, |last| last.round) + 1;
        let one = One {
            serial,
            source,
            round,
        };
        let _ = self.waiting.push_within_capacity(one);
    }

    fn first(&self) -> Option<(usize, &One)> {
        let waiting = self.waiting.iter().enumerate();
        // Of those with equal rounds the first one, which is the oldest.
        waiting.min_by_key(|(_, one)| one.round)
    }

    /// The connection whose Request is to be reported next, if there is room for it.
    pub(super) fn next(&self) -> Option<u64> {
        if self.reported < self.most {
            self.first().map(|(_, one)| one.serial)
        } else {
            None
        }
    }

    /// Counts the Request of a connection as reported, if it is the next one. Returns what
    /// [`Self::answered`] takes.
    pub(super) fn take(&mut self, serial: u64) -> Option<u64> {
        if self.next() != Some(serial) {
            return None;
        }
        let index = self.first().map(|(index, _)| index);
        if let Some(Ok(one)) = index.map(|index| self.waiting.remove(index)) {
            self.round = one.round;
        }
        self.reported += 1;
        Some(self.epoch)
    }

    /// A Request that [`Self::take`] has counted, in this `epoch`, is answered.
    ///
    /// When room was made for as many again, a rejection may be the RDMA CM's own, as a consumer
    /// that takes no events has left it no room. So it makes no room for the next Request, which
    /// would be rejected as well, until something shows that the consumer is there: that it
    /// accepts one, or answers one that was reported before.
    pub(super) fn answered(&mut self, epoch: u64, accepted: bool) {
        let now = epoch == self.epoch;
        if now && self.stalled && !accepted {
            self.rejected += 1;
            return;
        }
        self.stalled = false;
        let over = take(&mut self.rejected) + u32::from(now);
        self.reported = self.reported.saturating_sub(over);
        self.progress += 1;
    }

    /// A number that changes when there is room for more Requests.
    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// Nothing was answered for long. The consumer may take more Requests than its backlog before
    /// it answers one: those that are reported do not count any more, so that there is room for as
    /// many again. Not for all that wait: the RDMA CM would reject what is beyond the backlog.
    pub(super) fn make_room(&mut self) {
        self.epoch += 1;
        self.progress += 1;
        self.reported = 0;
        (self.stalled, self.rejected) = (true, 0);
    }

    /// A Request does not wait any more.
    pub(super) fn leave(&mut self, serial: u64) {
        if let Some(index) = self.waiting.iter().position(|one| one.serial == serial) {
            let _ = self.waiting.remove(index);
        }
    }

    /// Nobody listens any more: there is room for all, of which none will be reported.
    pub(super) fn close(&mut self) {
        self.most = u32::MAX;
    }
}

#[kunit_tests(rsiw_cm_backlog)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, SocketAddr};

    fn host(n: u8) -> Source {
        Source::of(&SocketAddr::new(Ipv4Addr::new(10, 0, 0, n).into(), 7))
    }

    /// Reports the next one.
    fn report(backlog: &mut Backlog) -> Option<u64> {
        let next = backlog.next()?;
        backlog.take(next).map(|_| next)
    }

    #[test]
    fn no_more_than_the_backlog_are_unanswered() -> Result {
        let mut backlog = Backlog::new(2, 8)?;
        assert!(backlog.next().is_none());
        for serial in 1..6 {
            backlog.wait(serial, host(1));
        }
        assert!(backlog.take(2).is_none());
        assert_eq!(report(&mut backlog), Some(1));
        assert_eq!(report(&mut backlog), Some(2));
        assert_eq!(report(&mut backlog), None);
        assert!(backlog.take(3).is_none());
        // The peer of the next one goes.
        backlog.leave(3);
        assert_eq!(report(&mut backlog), None);
        backlog.answered(0, false);
        assert_eq!(report(&mut backlog), Some(4));
        assert_eq!(report(&mut backlog), None);
        backlog.close();
        assert_eq!(report(&mut backlog), Some(5));
        assert_eq!(report(&mut backlog), None);
        Ok(())
    }

    #[test]
    fn room_is_made_for_as_many_again() -> Result {
        let mut backlog = Backlog::new(2, 8)?;
        for serial in 1..7 {
            backlog.wait(serial, host(1));
        }
        let early = backlog.take(1).ok_or(EINVAL)?;
        assert_eq!(report(&mut backlog), Some(2));
        let before = backlog.progress();
        backlog.make_room();
        assert!(backlog.progress() != before);
        assert_eq!(report(&mut backlog), Some(3));
        assert_eq!(report(&mut backlog), Some(4));
        assert_eq!(report(&mut backlog), None);
        // The answer to one that does not count any more makes no room.
        backlog.answered(early, true);
        assert_eq!(report(&mut backlog), None);
        backlog.answered(early + 1, true);
        assert_eq!(report(&mut backlog), Some(5));
        assert_eq!(report(&mut backlog), None);
        Ok(())
    }

    #[test]
    fn sources_take_turns() -> Result {
        let mut backlog = Backlog::new(16, 16)?;
        for serial in 1..5 {
            backlog.wait(serial, host(1));
        }
        backlog.wait(5, host(2));
        backlog.wait(6, host(2));
        assert_eq!(report(&mut backlog), Some(1));
        assert_eq!(report(&mut backlog), Some(5));
        assert_eq!(report(&mut backlog), Some(2));
        // A new source is in the next round.
        backlog.wait(7, host(3));
        assert_eq!(report(&mut backlog), Some(6));
        assert_eq!(report(&mut backlog), Some(3));
        assert_eq!(report(&mut backlog), Some(7));
        // A source keeps its order, also when it goes on later.
        backlog.wait(8, host(1));
        assert_eq!(report(&mut backlog), Some(4));
        assert_eq!(report(&mut backlog), Some(8));
        assert_eq!(report(&mut backlog), None);
        Ok(())
    }

    /// A source whose connections come one after the other does not keep another from its turns.
    #[test]
    fn a_source_that_comes_again_waits_for_others() -> Result {
        let mut backlog = Backlog::new(100, 16)?;
        for serial in 1..5 {
            backlog.wait(serial, host(1));
        }
        for again in 10..14 {
            backlog.wait(again, host(2));
            let two = [report(&mut backlog), report(&mut backlog)];
            assert!(two.contains(&Some(again)) && two.contains(&Some(again - 9)));
        }
        Ok(())
    }

    /// A consumer that takes no events has as many rejected as room was made for, and no more.
    #[test]
    fn rejections_make_no_room_before_the_consumer_is_there() -> Result {
        let mut backlog = Backlog::new(2, 16)?;
        for serial in 1..12 {
            backlog.wait(serial, host(1));
        }
        let early = backlog.take(1).ok_or(EINVAL)?;
        assert_eq!(report(&mut backlog), Some(2));
        backlog.make_room();
        let epoch = backlog.take(3).ok_or(EINVAL)?;
        assert_eq!(report(&mut backlog), Some(4));
        let before = backlog.progress();
        backlog.answered(epoch, false);
        backlog.answered(epoch, false);
        assert_eq!(report(&mut backlog), None);
        assert_eq!(backlog.progress(), before);
        // It answers one that it has had all along.
        backlog.answered(early, false);
        assert_eq!(report(&mut backlog), Some(5));
        assert_eq!(report(&mut backlog), Some(6));
        assert_eq!(report(&mut backlog), None);
        // From then on each answer counts.
        backlog.answered(epoch, false);
        assert_eq!(report(&mut backlog), Some(7));
        assert_eq!(report(&mut backlog), None);
        Ok(())
    }
}
