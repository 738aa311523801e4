// SPDX-License-Identifier: GPL-2.0

//! Connections of queue pairs that their programs connect: no consumer of iwcm asks for them.
//!
//! Each queue pair is told the name of its peer ([`iwarp::conn::names`]), and has an [`Endpoint`]
//! from then on. The names say which of the two connects.
//!
//! - [`caller`]: the end that connects, and tries again until there is a connection.
//! - [`expected`]: the end that is called: whom the queue pairs of a device expect.
//! - [`door`]: sockets that listen for calls.
//! - [`parked`]: the stage of a call until its queue pair expects it.

mod caller;
mod door;
mod expected;
pub(super) mod parked;

pub(super) use {door::Doors, expected::Expected};

use super::{conn::Conn, registry::Registry, User};
use crate::device::Rsiw;
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use door::OpenDoor;
use iwarp::conn::names::{Names, Role};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use kext::{new_delayed_work, work::DelayedWork};
use rdma::Device;

/// The way to the peer, beside its name.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// The interface that has this end's address.
    pub(crate) ifindex: u32,
    /// Type of service, or traffic class.
    pub(crate) tos: u8,
}

/// A queue pair that is to be connected, or is.
#[pin_data]
pub(crate) struct Endpoint<U: User> {
    registry: Arc<Registry<U>>,
    user: Arc<U>,
    /// The user's life in which it is to be connected.
    life: u32,
    names: Names,
    way: Way,
    /// The port that is called, or listened at.
    port: u16,
    #[pin]
    state: Mutex<State<U>>,
    /// Calls the peer again.
    #[pin]
    again: DelayedWork<Endpoint<U>>,
}

struct State<U: User> {
    /// How often the peer was called in vain.
    tries: u32,
    /// The last connection that was tried. The next one's socket inherits from this one's.
    before: Option<Arc<Conn<U>>>,
    /// The queue pair does not want a connection any more.
    closed: bool,
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
    /// have the address, or no longer. `EADDRINUSE`: a program listens at the port. Errors of
    /// connecting that TCP reports at once. `ENOMEM`, `ENODEV`.
    pub(crate) fn open(
        registry: &Arc<Registry<U>>,
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
        let endpoint = Arc::pin_init(
            pin_init!(Self {
                registry: registry.clone(),
                user: user.clone(),
                life: user.life(),
                names,
                way,
                port: registry.dev.settings.rc_port(),
                state <- new_mutex!(state, "rsiw_rc_endpoint"),
                again <- new_delayed_work!("rsiw_rc_again"),
            }),
            GFP_KERNEL,
        )?;
        let begun = match names.role() {
            Role::Initiator | Role::Both => endpoint.call(dev, None),
            Role::Responder => endpoint.expect(dev),
        };
        match begun {
            Ok(()) => Ok(endpoint),
            Err(e) => {
                endpoint.close();
                Err(e)
            }
        }
    }

    /// The queue pair, and its life in which it is to be connected.
    pub(super) fn user(&self) -> (&Arc<U>, u32) {
        (&self.user, self.life)
    }

    /// The type of service of what is sent to the peer.
    pub(super) fn tos(&self) -> u8 {
        self.way.tos
    }

    /// The peer has called, and has the connection: nobody else is expected. Context: process.
    pub(super) fn is_called(self: &Arc<Self>) {
        self.registry.expected.remove(self);
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
        self.registry.expected.remove(self);
        // Unlocked, as these may free sockets.
        drop(before);
        drop(door);
    }

    /// Opens the door, then expects the peer.
    fn expect(self: &Arc<Self>, dev: &Device<Rsiw>) -> Result {
        let at = address(&self.names.ours.gid, self.port);
        let door = Doors::open(&self.registry, dev, at, self.way.ifindex)?;
        self.state.lock().door = Some(door);
        self.registry.expected.add(&self.registry, self)
    }
}

/// The socket address of a GID.
fn address(gid: &[u8; 16], port: u16) -> SocketAddr {
    let ip = Ipv6Addr::from(*gid);
    match ip.to_ipv4_mapped() {
        Some(ip) => SocketAddr::new(ip.into(), port),
        None => SocketAddrV6::new(ip, port, 0, 0).into(),
    }
}

/// The GID of a socket address.
fn gid_of(addr: &SocketAddr) -> [u8; 16] {
    match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}
