// SPDX-License-Identifier: GPL-2.0

//! The end that connects. It calls its peer until there is a connection, or the program gives up:
//! the peer's program may be slower than this one, and no message tells that it is ready.

use super::{endpoint::Endpoint, Pairing};
use crate::{
    cm::{initiator, Conn, User},
    device::Rsiw,
};
use iwarp::conn::timeout;
use kernel::{prelude::*, sync::Arc};
use kext::{noio::noio, work::DelayedWorkItem};
use net::TcpSocket;
use rdma::Device;

impl<U: User> DelayedWorkItem for Endpoint<U> {
    fn expire(this: Arc<Self>) {
        noio(|| this.call_again());
    }
}

impl<U: User> Endpoint<U> {
    /// Begins a connection to the peer. `before` is the socket of the one before. Its end comes by
    /// [`Self::failed`], unless it succeeds. Context: sleeping.
    pub(super) fn call(self: &Arc<Self>, dev: &Device<Rsiw>, before: Option<&TcpSocket>) -> Result {
        initiator::call(&self.doors.conns, dev, self, before)
    }

    /// The connection `conn`, which [`Self::call`] has begun, has failed. Context: sleeping.
    pub(in crate::cm) fn failed(self: &Arc<Self>, conn: &Arc<Conn<U>>) {
        self.call_later(Some(conn.clone()));
    }

    fn call_later(self: &Arc<Self>, before: Option<Arc<Conn<U>>>) {
        let old = {
            let state = &mut *self.state.lock();
            if state.closed {
                return;
            }
            let ms = timeout::call_again(state.tries);
            state.tries = state.tries.saturating_add(1);
            let old = core::mem::replace(&mut state.before, before);
            // With the lock held, so that `close` finds it armed or prevents it.
            let queue = &self.doors.conns.dev.workqueues.cm;
            let queue = queue.of(self.pairing.user.consumer());
            self.again.arm(queue, self.clone(), ms);
            old
        };
        // Unlocked, as it may free a socket.
        drop(old);
    }

    fn call_again(self: &Arc<Self>) {
        let before = {
            let state = &mut *self.state.lock();
            if state.closed {
                return;
            }
            state.before.take()
        };
        let handle = self.doors.conns.dev.handle();
        let Some(dev) = handle.and_then(|handle| handle.try_get()) else {
            // The device goes, and all its queue pairs before it.
            return;
        };
        let Pairing { user, life, .. } = &*self.pairing;
        match self.call(&dev, before.as_ref().map(|conn| conn.socket())) {
            Ok(()) => {}
            // The queue pair has failed meanwhile.
            Err(_) if !user.is_attachable(*life) => {}
            // The address or the route may come back.
            Err(_) => self.call_later(before),
        }
    }
}
