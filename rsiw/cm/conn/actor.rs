// SPDX-License-Identifier: GPL-2.0

//! The actor of a connection: how events wake it, and who has the stage meanwhile.

use super::{Conn, Stage};
use crate::cm::{
    events::{Event, Events},
    User,
};
use core::sync::atomic::{fence, Ordering};
use kernel::sync::{lock::mutex::MutexGuard, Arc, ArcBorrow};

impl<U: User> Conn<U> {
    /// Notes an event and wakes the actor. Context: any.
    pub(in crate::cm) fn notify(self: &Arc<Self>, event: Event) {
        Self::wake(self.as_arc_borrow(), event);
    }

    pub(super) fn wake(this: ArcBorrow<'_, Self>, event: Event) {
        this.events.add(event);
        Self::wake_actor(this);
    }

    fn wake_actor(this: ArcBorrow<'_, Self>) {
        let this = Arc::from(this);
        if !this.order.enter(&this) {
            let queue = this.dev().workqueues.cm.of(this.consumer());
            queue.enqueue(this.clone());
        }
    }

    /// Calls `f` in place of the actor, with the stage locked. Context: sleeping.
    pub(in crate::cm) fn in_actors_place(self: &Arc<Self>, f: impl FnOnce(&mut Stage<U>)) {
        f(&mut self.stage.lock());
        self.look_again();
    }

    /// Wakes the actor if events are left. To be called after the stage was unlocked, as the actor
    /// may have found it locked.
    pub(in crate::cm) fn look_again(self: &Arc<Self>) {
        // Pairs with the fence in `try_stage`: either the actor finds the stage unlocked, or this
        // load finds the actor's events.
        fence(Ordering::SeqCst);
        if self.events.any() {
            Self::wake_actor(self.as_arc_borrow());
        }
    }

    /// Locks the stage for the actor, and takes the events since its last step. Context: sleeping.
    ///
    /// It does not wait for the stage: a thread that has it locked, to accept or to start a
    /// connection, may be without a processor for a long time. Who has it locked calls
    /// [`Conn::look_again`] afterwards.
    pub(in crate::cm) fn try_stage(self: &Arc<Self>) -> Option<(MutexGuard<'_, Stage<U>>, Events)> {
        fence(Ordering::SeqCst);
        let stage = self.stage.try_lock()?;
        Some((stage, self.take_events()))
    }
}
