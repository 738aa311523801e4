// SPDX-License-Identifier: GPL-2.0

//! Makes sockets for the consumer's identifier: namespace, addresses, type of service.

use crate::{device::Rsiw, settings::Settings};
use core::net::SocketAddr;
use kernel::prelude::*;
use net::{addr::is_link_local, errno, Family, Namespace, TcpSocket};
use rdma::{CmId, Device, ListenId, NetDevice};

/// The network interface of a device: its sockets are in the interface's namespace.
struct Interface {
    net: Namespace,
    ifindex: u32,
}

impl Interface {
    /// The interface of `dev`. Errors: `ENODEV`; `ENETDOWN` if the interface's namespace is going
    /// away.
    fn of(dev: &Device<Rsiw>) -> Result<Self> {
        let ndev = dev.netdev().ok_or(ENODEV)?;
        Ok(Self {
            net: ndev.namespace().ok_or_else(|| errno::ENETDOWN.error())?,
            ifindex: u32::try_from(ndev.ifindex()).map_err(|_| ENODEV)?,
        })
    }

    /// Adds the interface to a link-local address that names none.
    fn scoped(&self, mut addr: SocketAddr) -> SocketAddr {
        if let SocketAddr::V6(v6) = &mut addr {
            if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 {
                v6.set_scope_id(self.ifindex);
            }
        }
        addr
    }

    /// Whether the RDMA CM may have picked the port of `local`. It picks ports that are free in its
    /// own port space, which may be in use in TCP's. A port outside of the range that it picks from
    /// is the consumer's choice.
    fn picked(&self, local: &SocketAddr) -> bool {
        self.net.is_ephemeral_port(local.port())
    }

    fn socket(&self, cm: &CmId, mapper: PortMapper, addr: &SocketAddr) -> Result<TcpSocket> {
        let socket = TcpSocket::new(&self.net, Family::of(addr))?;
        if let Some(tos) = cm.tos() {
            socket.set_tos(tos)?;
        }
        if mapper.chooses() && cm.has_mapped_port() {
            socket.share_port();
        }
        Ok(socket)
    }
}

/// What a device takes from the port mapper of the host (iwpmd). (In Linux 7.2 the RDMA core lets
/// any process be that.)
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortMapper {
    /// Nothing. The RDMA core asks the one port mapper that the initial network namespace has, also
    /// for devices of other namespaces. Its ports are free there, and the peers that it asks are
    /// those that have the addresses there. So it says nothing of a device's own namespace.
    Elsewhere,
    /// The port that the peer's port mapper has told of, if that is all that it has told.
    Told,
    /// The ports of both ends.
    Chooses,
}

impl PortMapper {
    /// That of `dev`, by its setting `port_mapper`. Context: any.
    pub(crate) fn of(dev: &Device<Rsiw>, settings: &Settings) -> Self {
        dev.netdev()
            .map_or(Self::Elsewhere, |ndev| Self::at(&ndev, settings))
    }

    /// That of a device on `ndev`. Context: any.
    pub(crate) fn at(ndev: &NetDevice, settings: &Settings) -> Self {
        if !ndev.namespace().is_some_and(|net| net.is_init()) {
            return Self::Elsewhere;
        }
        match settings.port_mapper() {
            true => Self::Chooses,
            false => Self::Told,
        }
    }

    /// Whether it chooses ports.
    pub(crate) fn chooses(self) -> bool {
        self == Self::Chooses
    }

    /// The local address of `cm`.
    pub(super) fn local(self, cm: &CmId) -> Result<SocketAddr> {
        match self {
            Self::Chooses => cm.mapped_local_addr(),
            Self::Told | Self::Elsewhere => cm.local_addr(),
        }
    }

    /// The peer's address. The peer's port mapper may have told of another port, even if this end
    /// uses none. But the connection goes to another host only if this end uses one.
    pub(super) fn remote(self, cm: &CmId) -> Result<SocketAddr> {
        let (wanted, told) = (cm.remote_addr()?, cm.mapped_remote_addr()?);
        Ok(match self {
            Self::Chooses => told,
            Self::Told if told.ip() == wanted.ip() => told,
            Self::Told | Self::Elsewhere => wanted,
        })
    }
}

/// Returns a socket that is bound to the local address, and the address to connect it to. If the
/// port is in use in TCP's port space and the RDMA CM picked it, another port is taken. Context:
/// sleeping.
pub(super) fn initiator(
    dev: &Device<Rsiw>,
    mapper: PortMapper,
    cm: &CmId,
    local: SocketAddr,
    remote: SocketAddr,
) -> Result<(TcpSocket, SocketAddr)> {
    let place = Interface::of(dev)?;
    let (mut local, remote) = (place.scoped(local), place.scoped(remote));
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(EINVAL);
    }
    let socket = place.socket(cm, mapper, &remote)?;
    let mut bound = socket.bind(&local);
    if bound.is_err_and(|e| e == errno::EADDRINUSE) && place.picked(&local) {
        local.set_port(0);
        bound = socket.bind(&local);
    }
    bound?;
    Ok((socket, remote))
}

/// Whether the RDMA CM picked an initiator's port, so that another one serves as well.
pub(super) fn picked(dev: &Device<Rsiw>, local: &SocketAddr) -> Result<bool> {
    Ok(Interface::of(dev)?.picked(local))
}

/// A listening socket for the local address of `cm`. Context: sleeping.
///
/// For the wildcard address each device has a socket of its own, so such a socket is bound to its
/// device's interface.
///
/// Returns `None` for the wildcard address if the device is in another network namespace than the
/// consumer. The RDMA CM has a consumer of the wildcard address listen on all devices, present and
/// future, and a process opens no ports in other namespaces. That is no error, or such a consumer
/// could listen nowhere. (A specific address leads the RDMA CM to a device of the consumer's own
/// namespace.)
pub(super) fn listener(
    dev: &Device<Rsiw>,
    mapper: PortMapper,
    listen: &ListenId,
    backlog: u32,
) -> Result<Option<TcpSocket>> {
    let cm = listen.id();
    let local = mapper.local(cm)?;
    let ndev = dev.netdev().ok_or(ENODEV)?;
    // Before `Interface::of`, which fails in a namespace that is going away.
    if local.ip().is_unspecified() && !listen.is_at(&ndev) {
        return Ok(None);
    }
    let place = Interface::of(dev)?;
    let local = place.scoped(local);
    let socket = place.socket(cm, mapper, &local)?;
    if cm.afonly() && local.is_ipv6() {
        socket.set_v6only()?;
    }
    if local.ip().is_unspecified() || is_link_local(&local.ip()) {
        socket.bind_to_device(place.ifindex)?;
    }
    socket.bind(&local)?;
    socket.listen(backlog)?;
    Ok(Some(socket))
}
