// SPDX-License-Identifier: GPL-2.0

//! The requests that wait until TCP has released memory of their consumer; see
//! [`zerocopy`](super::zerocopy).

use crate::{queue::Seq, transport::Transport};
use kernel::{alloc::Flags, prelude::*};
use net::Released;

/// Groups of requests that wait; if there are more, some wait longer than they have to.
const GROUPS: usize = 16;

/// The requests that are with TCP and wait until it has released memory.
pub(super) struct Unreleased {
    released: Released,
    /// The number of sends that have referred to memory.
    sends: u32,
    /// Requests before the second complete when the sends before the first are released. Both rise.
    waiting: [(u32, Seq); GROUPS],
    count: usize,
}

impl Unreleased {
    /// Nothing yet; `None` unless there may be. Context: sleeping. Errors: `ENOMEM`.
    pub(super) fn of(may_be: bool, flags: Flags) -> Result<Option<KBox<Self>>> {
        let nothing = || Self {
            released: Released::default(),
            sends: 0,
            waiting: [(0, 0); GROUPS],
            count: 0,
        };
        Ok(if may_be {
            Some(KBox::new(nothing(), flags)?)
        } else {
            None
        })
    }

    /// Whether TCP refers to memory.
    pub(super) fn is_any(&self) -> bool {
        self.released.all_before() != self.sends
    }

    /// Whether another batch may refer to memory.
    pub(super) fn has_room(&self) -> bool {
        self.sends.wrapping_sub(self.released.all_before()) < Released::MOST / 2
    }

    /// TCP has taken bytes that refer to memory; there were `sends` such sends in all.
    pub(super) fn note(&mut self, sends: u32) {
        self.sends = sends;
    }

    /// Has the requests before `seq` wait for what was sent so far.
    pub(super) fn await_release(&mut self, seq: Seq) {
        let last = self.count.checked_sub(1);
        let is_new = last.is_none_or(|last| self.waiting[last].0 != self.sends);
        if is_new && self.count < GROUPS {
            self.count += 1;
        }
        if let Some(last) = self.count.checked_sub(1) {
            self.waiting[last] = (self.sends, seq);
        }
    }

    /// Looks at what TCP has released since. Returns the requests that do not wait any more: those
    /// before a position. Errors: TCP has told what cannot be.
    pub(super) fn look(&mut self, transport: &impl Transport) -> Result<Option<Seq>, ()> {
        while let Some((first, last)) = transport.next_released() {
            self.released.note(first, last).map_err(drop)?;
        }
        let before = self.released.all_before();
        // CAST: The distance, as a signed number.
        let is_over = |(sends, _): &(u32, Seq)| before.wrapping_sub(*sends) as i32 >= 0;
        let waiting = &mut self.waiting[..self.count];
        let over = waiting.iter().take_while(|group| is_over(group)).count();
        let seq = over.checked_sub(1).map(|last| waiting[last].1);
        waiting.rotate_left(over);
        self.count -= over;
        Ok(seq)
    }
}
