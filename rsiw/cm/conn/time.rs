// SPDX-License-Identifier: GPL-2.0

//! The timer of a connection, of which there is one: each stage sets it anew.

use super::Conn;
use crate::cm::{
    events::{Event, Events},
    timeout::TICK,
    User,
};
use core::sync::atomic::Ordering;
use kernel::{sync::Arc, time::Instant};
use rdma::Consumer;

impl<U: User> Conn<U> {
    /// Has the timer run out at this [`Conn::age`], or not at all. Context: any.
    pub(in crate::cm) fn set_deadline(self: &Arc<Self>, deadline: Option<i64>) {
        let Some(deadline) = deadline else {
            return self.clear_timeout();
        };
        // If it is the same one, the timer runs already.
        if self.deadline.swap(deadline, Ordering::Relaxed) != deadline {
            let left = u32::try_from(deadline.saturating_sub(self.age())).unwrap_or(0);
            self.arm(left);
        }
    }

    fn arm(self: &Arc<Self>, ms: u32) {
        // It only wakes the actor, and waits for nothing.
        let queue = self.dev().workqueues.cm.of(Consumer::Kernel);
        self.timer.arm(queue, self.clone(), ms);
    }

    /// Sets no time-out for the stage.
    pub(in crate::cm) fn clear_timeout(&self) {
        self.deadline.store(i64::MAX, Ordering::Relaxed);
        self.timer.cancel();
    }

    /// Milliseconds since the connection was made.
    pub(in crate::cm) fn age(&self) -> i64 {
        (Instant::now() - self.born).as_millis()
    }

    pub(super) fn take_events(self: &Arc<Self>) -> Events {
        let events = self.events.take();
        let deadline = self.deadline.load(Ordering::Relaxed);
        let left = deadline.saturating_sub(self.age());
        if !events.contains(Event::Timeout) {
            return events;
        }
        if left <= TICK {
            // The timer does not run any more, so even the same deadline has to be set again.
            self.deadline.store(i64::MAX, Ordering::Relaxed);
            return events;
        }
        // It may be a former stage's. Or the timer was early: jiffies were late when it was armed,
        // as a hypervisor had stopped the processor that counts them. Then none is to come.
        if deadline != i64::MAX {
            self.arm(u32::try_from(left).unwrap_or(u32::MAX));
        }
        events & !Event::Timeout
    }
}
