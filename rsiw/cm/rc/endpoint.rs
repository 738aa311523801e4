// SPDX-License-Identifier: GPL-2.0

//! What has a queue pair connected by name.

use super::{
    door::{Doors, OpenDoor},
    Pairing, Way,
};
use crate::{
    cm::{Conn, User},
    device::Rsiw,
};
use iwarp::conn::names::{Names, Role};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use kext::{new_delayed_work, work::DelayedWork};
use rdma::Device;

/// A queue pair that is to be connected, or is.
#[pin_data]
pub(crate) struct Endpoint<U: User> {
    pub(super) doors: Arc<Doors<U>>,
    pub(super) pairing: Arc<Pairing<U>>,
    #[pin]
    pub(super) state: Mutex<State<U>>,
    /// Calls the peer again.
    #[pin]
    pub(super) again: DelayedWork<Endpoint<U>>,
}

/// The state of an [`Endpoint`].
pub(super) struct State<U: User> {
    /// How often the peer was called in vain.
    pub(super) tries: u32,
    /// The last connection that was tried. The next one's socket inherits from this one's.
    pub(super) before: Option<Arc<Conn<U>>>,
    /// The queue pair does not want a connection any more.
    pub(super) closed: bool,
    /// Where the peer is expected to call. It stays open while the queue pair is connected: peers
    /// of other queue pairs need not be refused in between.
    door: Option<OpenDoor<U>>,
}

impl<U: User> Endpoint<U> {
    /// Has `user` connected by name: calls the peer, or expects its call. Context: sleeping; does
    /// not wait for the network.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the user has a connection, or cannot have one. `EADDRNOTAVAIL`: the host does not
    /// have the address, or no longer. `EADDRINUSE`: a program listens at the port at which the
    /// peer would call; or no low port is free to call from (`rc_low_ports`). Errors of connecting
    /// that TCP reports at once. `ENOMEM`, `ENODEV`.
    pub(crate) fn open(
        doors: &Arc<Doors<U>>,
        dev: &Device<Rsiw>,
        user: &Arc<U>,
        names: Names,
        way: Way,
    ) -> Result<Arc<Self>> {
        let state = State {
            tries: 0,
            before: None,
            closed: false,
            door: None,
        };
        let pairing = Pairing {
            user: user.clone(),
            life: user.life(),
            names,
            way,
            expected: doors.expected.clone(),
            port: doors.conns.dev.settings.rc_port(),
        };
        let pairing = Arc::new(pairing, GFP_KERNEL)?;
        let endpoint = Arc::pin_init(
            pin_init!(Self {
                doors: doors.clone(),
                pairing,
                state <- new_mutex!(state, "rsiw_rc_endpoint"),
                again <- new_delayed_work!("rsiw_rc_again"),
            }),
            GFP_KERNEL,
        )?;
        let begun = match names.role() {
            Role::Initiator | Role::Both => endpoint.call(dev, None),
            Role::Responder => endpoint.await_call(dev),
        };
        match begun {
            Ok(()) => Ok(endpoint),
            Err(e) => {
                endpoint.close();
                Err(e)
            }
        }
    }

    /// The queue pair, and its peer.
    pub(in crate::cm) fn pairing(&self) -> &Pairing<U> {
        &self.pairing
    }

    /// The queue pair does not want a connection any more, or has lost its only one. A connection
    /// that it has stays. Context: sleeping.
    pub(crate) fn close(self: &Arc<Self>) {
        let (before, door) = {
            let state = &mut *self.state.lock();
            state.closed = true;
            (state.before.take(), state.door.take())
        };
        self.again.cancel_sync();
        self.doors.expected.remove(&self.pairing);
        // Unlocked, as these may free sockets.
        drop(before);
        drop(door);
    }

    /// Opens the door, then expects the peer's call.
    fn await_call(&self, dev: &Device<Rsiw>) -> Result {
        let Self { doors, pairing, .. } = self;
        let door = doors.open(dev, pairing.door(), pairing.way.ifindex)?;
        self.state.lock().door = Some(door);
        let give_turn = |serial| doors.conns.give_turn(serial);
        doors.expected.add(pairing, give_turn)
    }
}
