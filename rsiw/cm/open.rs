// SPDX-License-Identifier: GPL-2.0

//! Making sockets as the consumer's id wants them: namespace, addresses, type of service.

use crate::device::Rsiw;
use core::net::SocketAddr;
use kernel::prelude::*;
use net::{addr::is_link_local, errno, Family, Namespace, TcpSocket};
use rdma::{CmId, Device};

/// Where the device's sockets live.
struct Interface {
    net: Namespace,
    ifindex: u32,
}

impl Interface {
    /// That of the device's network interface. Errors: `ENODEV`, `ENETDOWN` when it, or its
    /// namespace, is going away.
    fn of(dev: &Device<Rsiw>) -> Result<Self> {
        let ndev = dev.netdev().ok_or(ENODEV)?;
        Ok(Self {
            net: ndev.namespace().ok_or_else(|| errno::ENETDOWN.error())?,
            ifindex: u32::try_from(ndev.ifindex()).map_err(|_| ENODEV)?,
        })
    }

    /// A link-local address means one on our interface, unless it says otherwise.
    fn scoped(&self, mut addr: SocketAddr) -> SocketAddr {
        if let SocketAddr::V6(v6) = &mut addr {
            if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 {
                v6.set_scope_id(self.ifindex);
            }
        }
        addr
    }

    /// The RDMA CM picks a free port of its own port space, which may be in use in TCP's. A port
    /// outside of the range it picks from is the consumer's wish.
    fn picked(&self, local: &SocketAddr) -> bool {
        self.net.is_ephemeral_port(local.port())
    }

    fn socket(&self, cm: &CmId, mapped: bool, addr: &SocketAddr) -> Result<TcpSocket> {
        let socket = TcpSocket::new(&self.net, Family::of(addr))?;
        if let Some(tos) = cm.tos() {
            socket.set_tos(tos)?;
        }
        if mapped && cm.has_mapped_port() {
            socket.share_port();
        }
        Ok(socket)
    }
}

/// The id's local address, as the port mapper has it if it may choose ports here. Anybody can be the
/// port mapper of the host, as the core of Linux 7.2 has it.
pub(super) fn local(cm: &CmId, mapped: bool) -> Result<SocketAddr> {
    if mapped {
        cm.mapped_local_addr()
    } else {
        cm.local_addr()
    }
}

/// The peer's address. Its port mapper may tell of another port, whatever is done here; but a
/// connection does not go to another host for that.
pub(super) fn remote(cm: &CmId, mapped: bool) -> Result<SocketAddr> {
    let (wanted, told) = (cm.remote_addr()?, cm.mapped_remote_addr()?);
    Ok(if mapped || told.ip() == wanted.ip() {
        told
    } else {
        wanted
    })
}

/// A socket that is bound to the id's local address, and the address to connect it to. Context:
/// sleeping.
pub(super) fn initiator(
    dev: &Device<Rsiw>,
    mapped: bool,
    cm: &CmId,
    local: SocketAddr,
    remote: SocketAddr,
) -> Result<(TcpSocket, SocketAddr)> {
    let place = Interface::of(dev)?;
    let (mut local, remote) = (place.scoped(local), place.scoped(remote));
    if local.is_ipv4() != remote.is_ipv4() {
        return Err(EINVAL);
    }
    let socket = place.socket(cm, mapped, &remote)?;
    let mut bound = socket.bind(&local);
    if bound.is_err_and(|e| e == errno::EADDRINUSE) && place.picked(&local) {
        local.set_port(0);
        bound = socket.bind(&local);
    }
    bound?;
    Ok((socket, remote))
}

/// Whether the RDMA CM picked an initiator's port, so that another one does as well.
pub(super) fn picked(dev: &Device<Rsiw>, local: &SocketAddr) -> Result<bool> {
    Ok(Interface::of(dev)?.picked(local))
}

/// A listening socket for the id's local address. Context: sleeping.
///
/// The wildcard address is that of every device, each of which has a socket of its own for it, so
/// such a socket serves its device's interface only.
///
/// There is none where the device is in another network namespace than the consumer: the RDMA CM
/// has a consumer of the wildcard address listen on all devices that there are or will be, and a
/// process opens no ports for others. That is no error, or the consumer could listen nowhere. (An
/// address of its own leads the RDMA CM to a device of its own namespace.)
pub(super) fn listener(
    dev: &Device<Rsiw>,
    mapped: bool,
    cm: &CmId,
    backlog: u32,
) -> Result<Option<TcpSocket>> {
    let local = local(cm, mapped)?;
    let ndev = dev.netdev().ok_or(ENODEV)?;
    // First: of a namespace that is on its way out there is no interface to be had.
    if local.ip().is_unspecified() && !cm.is_at(&ndev) {
        return Ok(None);
    }
    let place = Interface::of(dev)?;
    let local = place.scoped(local);
    let socket = place.socket(cm, mapped, &local)?;
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
