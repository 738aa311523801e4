// SPDX-License-Identifier: GPL-2.0

//! Sockets that listen for calls: one for each address at which a queue pair of a device expects
//! its peer, or has met it. Where no program waits for a peer, no port is open.

use crate::{
    cm::{listener, open, registry::Registry, Listener, User},
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

/// The sockets of a device that listen for calls.
pub(in crate::cm) struct Doors<U: User>(Pin<KBox<Mutex<KVec<Door<U>>>>>);

/// A reference to an open door, which is closed with the last one.
pub(super) struct OpenDoor<U: User> {
    registry: Arc<Registry<U>>,
    at: SocketAddr,
    ifindex: u32,
}

impl<U: User> Doors<U> {
    /// No door. Context: sleeping. Errors: `ENOMEM`.
    pub(in crate::cm) fn new() -> Result<Self> {
        let doors = new_mutex!(KVec::new(), "rsiw_rc_doors");
        Ok(Self(KBox::pin_init(doors, GFP_KERNEL)?))
    }

    /// Opens a door, if it is not open yet. Context: sleeping. Errors: those of making and binding
    /// a socket; `ENOMEM`.
    pub(super) fn open(
        registry: &Arc<Registry<U>>,
        dev: &Device<Rsiw>,
        at: SocketAddr,
        ifindex: u32,
    ) -> Result<OpenDoor<U>> {
        let mut doors = registry.doors.0.lock();
        let open = doors
            .iter_mut()
            .find(|door| (door.at, door.ifindex) == (at, ifindex));
        match open {
            Some(door) => door.users = door.users.checked_add(1).ok_or(EBUSY)?,
            None => {
                doors.reserve(1, GFP_KERNEL)?;
                let socket = open::door(dev, at, ifindex, BACKLOG)?;
                let listener = listener::for_calls(registry, socket, ifindex, BACKLOG)?;
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
            registry: registry.clone(),
            at,
            ifindex,
        })
    }
}

impl<U: User> Drop for OpenDoor<U> {
    fn drop(&mut self) {
        let mut doors = self.registry.doors.0.lock();
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
