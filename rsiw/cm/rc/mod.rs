// SPDX-License-Identifier: GPL-2.0

//! Connections of queue pairs that their programs connect: no consumer of iwcm asks for them.
//!
//! Each queue pair is told the name of its peer ([`iwarp::conn::names`]), and has an [`Endpoint`]
//! from then on. The names say which of the two connects.
//!
//! - [`endpoint`]: what has a queue pair connected.
//! - [`caller`]: the end that connects, and tries again until there is a connection.
//! - [`expected`]: the end that is called: whom the queue pairs of a device expect.
//! - [`door`]: sockets that listen for calls.
//! - [`parked`]: the stage of a call until its queue pair expects it.

mod caller;
mod door;
mod endpoint;
mod expected;
pub(super) mod parked;

pub(super) use expected::Calls;
pub(crate) use {door::Doors, endpoint::Endpoint};

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use expected::Expected;
use iwarp::conn::names::Names;
use kernel::sync::Arc;

/// The way to the peer, beside its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The interface that has this end's address.
    pub(crate) ifindex: u32,
    /// Type of service, or traffic class.
    pub(crate) tos: u8,
}

/// A queue pair, and the peer that it is to be connected to.
pub(super) struct Pairing<U> {
    pub(super) user: Arc<U>,
    /// The user's life in which it is to be connected.
    pub(super) life: u32,
    pub(super) names: Names,
    pub(super) way: Way,
    /// Where its peer is expected. (That has this in turn, until the endpoint is closed.)
    expected: Arc<Expected<U>>,
    /// The port that is called, or listened at.
    port: u16,
}

impl<U> Pairing<U> {
    /// The queue pair, which had been called, expects its peer again: `give_turn` gets the keys of
    /// the calls for it. Context: process.
    pub(super) fn expects(&self, give_turn: impl Fn(u64)) {
        self.expected.give_turns(self.names.ours.qpn, give_turn);
    }

    /// The address that calls come from.
    pub(super) fn local(&self) -> SocketAddr {
        address(&self.names.ours.gid, 0)
    }

    /// The address at which the peer's calls are expected.
    fn door(&self) -> SocketAddr {
        address(&self.names.ours.gid, self.port)
    }

    /// The address at which the peer is called.
    pub(super) fn remote(&self) -> SocketAddr {
        address(&self.names.theirs.gid, self.port)
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
