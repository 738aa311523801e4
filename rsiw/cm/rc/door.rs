// SPDX-License-Identifier: GPL-2.0

//! Sockets that listen for calls: one for each address at which a queue pair of a device expects
//! its peer, or has met it. Where no program waits for a peer, no port is open.

use super::expected::{Calls, Expected};
use crate::{
    cm::{conn::Conns, listener, sockets, Listener, User},
    device::Rsiw,
};
use core::net::SocketAddr;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use rdma::Device;

/// Connections that TCP keeps for a listener, and slots for calls that are not answered. Programs
/// connect many queue pairs at a time.
const BACKLOG: u32 = 1024;

/// A socket that listens.
struct Door<U: User> {
    at: SocketAddr,
    ifindex: u32,
    users: u32,
    listener: Arc<Listener<U>>,
}

/// What a device has for calls: the sockets that listen for them, and whom they are for.
pub(crate) struct Doors<U: User> {
    pub(super) conns: Arc<Conns<U>>,
    pub(super) expected: Arc<Expected<U>>,
    open: Pin<KBox<Mutex<KVec<Door<U>>>>>,
}

/// A reference to an open door, which is closed with the last one.
pub(super) struct OpenDoor<U: User> {
    doors: Arc<Doors<U>>,
    at: SocketAddr,
    ifindex: u32,
}

impl<U: User> Doors<U> {
    /// No door is open, and nobody is expected. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(conns: &Arc<Conns<U>>) -> Result<Arc<Self>> {
        let open = new_mutex!(KVec::new(), "rsiw_rc_doors");
        let doors = Self {
            conns: conns.clone(),
            expected: Arc::new(Expected::new()?, GFP_KERNEL)?,
            open: KBox::pin_init(open, GFP_KERNEL)?,
        };
        Ok(Arc::new(doors, GFP_KERNEL)?)
    }

    /// Opens a door, if it is not open yet. Context: sleeping. Errors: those of making and binding
    /// a socket; `ENOMEM`.
    pub(super) fn open(
        self: &Arc<Self>,
        dev: &Device<Rsiw>,
        at: SocketAddr,
        ifindex: u32,
    ) -> Result<OpenDoor<U>> {
        let mut doors = self.open.lock();
        let open = doors
            .iter_mut()
            .find(|door| (door.at, door.ifindex) == (at, ifindex));
        match open {
            Some(door) => door.users = door.users.checked_add(1).ok_or(EBUSY)?,
            None => {
                doors.reserve(1, GFP_KERNEL)?;
                let socket = sockets::door(dev, at, ifindex, BACKLOG)?;
                let expected = self.expected.clone();
                let calls = Calls { expected, ifindex };
                let listener = listener::for_calls(&self.conns, socket, calls, BACKLOG)?;
                let users = 1;
                let door = Door {
                    at,
                    ifindex,
                    users,
                    listener,
                };
                // There is room.
                let _ = doors.push_within_capacity(door);
            }
        }
        Ok(OpenDoor {
            doors: self.clone(),
            at,
            ifindex,
        })
    }
}

impl<U: User> Drop for OpenDoor<U> {
    fn drop(&mut self) {
        let mut doors = self.doors.open.lock();
        let ours = |door: &Door<U>| (door.at, door.ifindex) == (self.at, self.ifindex);
        let Some(index) = doors.iter().position(ours) else {
            return;
        };
        let Some(door) = doors.get_mut(index) else {
            return;
        };
        door.users -= 1;
        if door.users != 0 {
            return;
        }
        // With the lock held, so that the port is free before somebody opens the door again.
        if let Ok(door) = doors.remove(index) {
            let _ = listener::unlisten(door.listener);
        }
    }
}
