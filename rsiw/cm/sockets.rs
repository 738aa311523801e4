// SPDX-License-Identifier: GPL-2.0

//! Makes sockets for the consumer's identifier: namespace, addresses, type of service.

use crate::{device::Rsiw, settings::Settings};
use core::{net::SocketAddr, ops::RangeInclusive};
use kernel::prelude::*;
use net::{addr::is_link_local, errno, Family, Namespace, TcpSocket};
use rdma::{CmId, ConsumerId, Device, Kind, NetDevice};

/// The network interface of an identifier: its sockets are in the interface's namespace.
struct Interface {
    net: Namespace,
    ifindex: u32,
}

impl Interface {
    /// The interface that the RDMA CM has `found` for an identifier of `dev`, or that of `dev`.
    /// Errors: `ENODEV`; `ENETDOWN` if the interface's namespace is going away.
    fn of(dev: &Device<Rsiw>, found: Option<u32>) -> Result<Self> {
        let ndev = dev.netdev().ok_or(ENODEV)?;
        let own = u32::try_from(ndev.ifindex()).map_err(|_| ENODEV)?;
        Ok(Self {
            net: ndev.namespace().ok_or_else(|| errno::ENETDOWN.error())?,
            ifindex: found.unwrap_or(own),
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

    /// Restricts a socket at `local` to the VRF of the interface, whose addresses are no others'.
    /// `lo`, which has the loopback addresses, is in none.
    fn join_vrf(&self, socket: &TcpSocket, local: &SocketAddr) -> Result {
        if local.ip().is_loopback() {
            Ok(())
        } else {
            socket.bind_to_l3_master(self.ifindex)
        }
    }

    fn socket(&self, how: &SocketConfig, addr: &SocketAddr) -> Result<TcpSocket> {
        let socket = TcpSocket::new(&self.net, Family::of(addr))?;
        if let Some(tos) = how.tos {
            socket.set_tos(tos)?;
        }
        if how.share_port {
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
        if settings.port_mapper() {
            Self::Chooses
        } else {
            Self::Told
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

/// What the consumer, or the port mapper, wants of a socket.
#[derive(Clone, Copy, Default)]
pub(super) struct SocketConfig {
    /// Type of service, or traffic class.
    pub(super) tos: Option<u8>,
    /// The port mapper has bound a socket of its own to the port.
    pub(super) share_port: bool,
}

impl SocketConfig {
    /// That of an identifier.
    pub(super) fn of(cm: &CmId, mapper: PortMapper) -> Self {
        Self {
            tos: cm.tos(),
            share_port: mapper.chooses() && cm.has_mapped_port(),
        }
    }
}

/// What an initiator's socket needs to know of who connects.
pub(super) struct Origin {
    pub(super) socket: SocketConfig,
    /// The interface that has `local`, if it is known.
    pub(super) ifindex: Option<u32>,
    pub(super) local: SocketAddr,
    /// The port is one of [`LOW_PORTS`], and not that of `local`.
    pub(super) low_port: bool,
}

/// Ports that no process without privileges has, by the default of `ip_unprivileged_port_start`.
/// Those below belong to services; NFS calls from the same ones (`RPC_DEF_MIN_RESVPORT`).
const LOW_PORTS: RangeInclusive<u16> = 665..=LAST_LOW_PORT;

/// The last port that takes privileges.
pub(super) const LAST_LOW_PORT: u16 = 1023;

/// Binds to one of [`LOW_PORTS`], from `first` on, whoever the caller is. Errors: `EADDRINUSE` if
/// none is free.
fn bind_low(socket: &TcpSocket, local: &SocketAddr, first: u32) -> Result {
    let (least, count) = (*LOW_PORTS.start(), LOW_PORTS.len() as u32);
    let mut at = *local;
    for n in 0..count {
        // CAST: Below the number of ports.
        at.set_port(least + (first.wrapping_add(n) % count) as u16);
        match socket.bind_as_kernel(&at) {
            Err(e) if e == errno::EADDRINUSE => {}
            bound => return bound,
        }
    }
    Err(errno::EADDRINUSE.into())
}

/// Returns a socket that is bound to the local address, and the address to connect it to. If the
/// port is in use in TCP's port space and the RDMA CM picked it, another port is taken. A worker
/// that repeats an attempt has the socket inherit from the one `before`, as the consumer's process
/// made the first. Context: sleeping.
pub(super) fn initiator(
    dev: &Device<Rsiw>,
    origin: &Origin,
    remote: SocketAddr,
    before: Option<&TcpSocket>,
) -> Result<(TcpSocket, SocketAddr)> {
    let place = Interface::of(dev, origin.ifindex)?;
    let (mut local, remote) = (place.scoped(origin.local), place.scoped(remote));
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(EINVAL);
    }
    let socket = place.socket(&origin.socket, &remote)?;
    match before {
        Some(before) => socket.inherit(before),
        None => place.join_vrf(&socket, &local)?,
    }
    if origin.low_port {
        bind_low(&socket, &local, kext::jiffies_ms())?;
        return Ok((socket, remote));
    }
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
    Ok(Interface::of(dev, None)?.picked(local))
}

/// Whether a consumer may connect from `local`. For a loopback address the RDMA CM takes the first
/// device that it has, of any network namespace, and a process reaches no loopback addresses of
/// other namespaces. (Another address leads the RDMA CM to a device of the consumer's own.)
pub(super) fn may_connect_from(
    dev: &Device<Rsiw>,
    consumer: &ConsumerId,
    local: &SocketAddr,
) -> bool {
    !local.ip().is_loopback() || dev.netdev().is_some_and(|ndev| consumer.is_at(&ndev))
}

/// A listening socket for the local address of `cm`. Context: sleeping.
///
/// The RDMA CM has a consumer of the wildcard address, or of a loopback address, listen on all
/// devices, present and future. (Another address leads it to one device of the consumer's own
/// namespace.) For the wildcard address each device has a socket of its own, so such a socket is
/// bound to its device's interface.
///
/// Returns `None` where there is nothing to listen at. That is no error, or such a consumer could
/// listen nowhere. It is so
///
/// - if the device is in another network namespace than the consumer: a process opens no ports
///   there;
/// - for a loopback address, if the device is not on `lo`: of connections to that address the RDMA
///   CM takes those of a device on `lo` only;
/// - for the wildcard address, if the consumer's cgroup restricts its sockets to another VRF than
///   the device's (`ip vrf exec`).
pub(super) fn listener(
    dev: &Device<Rsiw>,
    mapper: PortMapper,
    listen: &ConsumerId,
    backlog: u32,
) -> Result<Option<TcpSocket>> {
    let cm = listen.id();
    let local = mapper.local(cm)?;
    let ndev = dev.netdev().ok_or(ENODEV)?;
    let (wildcard, loopback) = (local.ip().is_unspecified(), local.ip().is_loopback());
    // Before `Interface::of`, which fails in a namespace that is going away.
    if (wildcard || loopback) && !listen.is_at(&ndev) || loopback && ndev.kind() != Kind::Loopback {
        return Ok(None);
    }
    let place = Interface::of(dev, listen.ifindex())?;
    let local = place.scoped(local);
    let socket = place.socket(&SocketConfig::of(cm, mapper), &local)?;
    if cm.afonly() && local.is_ipv6() {
        socket.set_v6only()?;
    }
    if wildcard || is_link_local(&local.ip()) {
        match socket.bind_to_device(place.ifindex) {
            Err(e) if wildcard && e == errno::EADDRNOTAVAIL => return Ok(None),
            bound => bound?,
        }
    } else {
        place.join_vrf(&socket, &local)?;
    }
    socket.bind(&local)?;
    socket.listen(backlog)?;
    Ok(Some(socket))
}

/// A socket that listens for calls of queue pairs at `local`, an address of the interface `ifindex`
/// (and of no other, as it is the GID of the one). Context: sleeping.
pub(super) fn door(
    dev: &Device<Rsiw>,
    local: SocketAddr,
    ifindex: u32,
    backlog: u32,
) -> Result<TcpSocket> {
    let place = Interface::of(dev, Some(ifindex))?;
    let local = place.scoped(local);
    let socket = place.socket(&SocketConfig::default(), &local)?;
    if local.is_ipv6() {
        socket.set_v6only()?;
    }
    if is_link_local(&local.ip()) {
        socket.bind_to_device(ifindex)?;
    } else {
        place.join_vrf(&socket, &local)?;
    }
    // The administrator has chosen the port, which may take privileges.
    socket.bind_as_kernel(&local)?;
    socket.listen(backlog)?;
    Ok(socket)
}
