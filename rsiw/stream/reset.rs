// SPDX-License-Identifier: GPL-2.0

//! The way back from ERROR to IDLE: a queue pair is made ready for another connection. One that its
//! program connects itself comes back from each state.
//!
//! The connection manager must have taken the old connection from the queue pair first. That one
//! may linger, and its callbacks still come: they find that rx is not for their socket any more,
//! and leave the data to the connection. A call of the driver that another thread has begun before
//! the reset finds that the number of the life has changed (`Stream::life`), and does nothing. (The
//! RDMA core's own part is not covered: an `rdma_disconnect()` may still come to the next life.)
//! The queues are empty, but their positions stay, as siw's provider does not reset its own.
//! Completions of the old life stay in the completion queue: nobody can tell which of them the
//! provider has seen.

use super::{limits::Limits, Stream, Teardown};
use crate::{cm::User, queue::state::State, quota::Account};
use core::sync::atomic::Ordering::Relaxed;
use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
};

/// Milliseconds that a reset waits for the connection manager to take the old connection from the
/// queue pair. It does so in a worker, and waits for nobody.
const WAIT_MS: u32 = 1000;

impl Stream {
    /// Modify to RESET, of a QP in ERROR: the QP is in IDLE then, with empty queues and the limits
    /// of a new one. Requests and receives that were posted before have completed as flushed, and
    /// the consumer polls these completions as always. InfiniBand's reset, of a QP in any state,
    /// has no completions for what was posted. What TCP still has of the old connection is
    /// delivered all the same. Returns the number of the QP's new life. Context: sleeping; the
    /// consumer posts nothing meanwhile.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the old connection does not end in time; `ENOMEM`, also if there are as many QPs,
    /// with old connections that linger, as allowed; and `EINVAL` if the QP is destroyed, or was
    /// reset since `life` by another thread. Nothing is changed then, but a QP that its program
    /// connects itself is in ERROR, without what was posted.
    pub(crate) fn reset(self: &Arc<Self>, life: u32) -> Result<u32> {
        if self.dev().is_rc() {
            self.forget(life)?;
        }
        for _ in 0..WAIT_MS {
            if self.conn().is_none() {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        let mut end = self.teardown.lock();
        let dead = self.queues.state() == State::Error && end.flushed && !end.destroyed;
        if !dead || life != self.life() {
            return Err(EINVAL);
        }
        // What the process has posted since the timer has last looked: a part of the old life.
        // siw's library holds the locks of both queues during this call, rsiw's does not. With
        // that, what another thread posts meanwhile belongs to the old life or to the new one.
        let (sends, receives) = if self.dev().is_rc() {
            self.discard_posted();
            Default::default()
        } else {
            self.flush_late()
        };
        // Nobody attaches another one to a QP in ERROR.
        let ready = match self.conn() {
            Some(_) => Err(EBUSY),
            None => self.make_ready(&mut end),
        };
        if ready.is_err() {
            // What is posted from now on is flushed.
            self.await_late_posts(&mut end);
        }
        let life = ready.map(|()| self.life());
        drop(end);
        self.after_send(sends);
        self.after_recv(receives);
        life
    }

    /// Calls `change`, unless the QP was reset since `life`; it is not reset meanwhile. Context:
    /// sleeping.
    pub(crate) fn in_life(&self, life: u32, change: impl FnOnce()) {
        let _end = self.teardown.lock();
        if life == self.life() {
            change();
        }
    }

    /// The rest of [`Self::reset`]. Errors: `ENOMEM`, which changes nothing.
    fn make_ready(&self, end: &mut Teardown) -> Result {
        // If the old connection lingers, it counts against the limit of QPs until its end.
        let lingers = self
            .shared
            .lock()
            .account
            .as_ref()
            .is_some_and(|account| account.is_shared());
        let fresh = if lingers {
            Some(Account::new(
                self.dev().quotas.qp.hold()?,
                self.consumer().flags(),
            )?)
        } else {
            None
        };
        self.queues.reset()?;
        // If the timer of late posts is armed, it finds nothing to do.
        end.flushed = false;
        end.pause = 0;
        (end.connected, end.filling) = (false, None);
        (end.unanswered, end.waited_since) = (None, None);
        self.end_watch();
        let old = {
            let shared = &mut *self.shared.lock();
            shared.terminate = None;
            shared.fin = false;
            self.life.fetch_add(1, Relaxed);
            fresh.and_then(|fresh| shared.account.replace(fresh))
        };
        // Not with the lock held: it may be the last reference.
        drop(old);
        let limits = Limits::new(self.dev(), self.is_reliable());
        *self.limits.lock() = limits;
        // Last: from here on a connection may be attached.
        let _ = self.queues.advance(State::Idle);
        Ok(())
    }
}
