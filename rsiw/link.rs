// SPDX-License-Identifier: GPL-2.0

//! Makes devices on `rdma link add`.
//!
//! There are two types of links. A queue pair of the type `rsiw` is connected by the RDMA CM, and
//! programs see an RNIC. One of the type `rsiw_rc` is connected by the program, as with InfiniBand
//! and RoCE. A network device may have one of each.

use crate::{
    cm,
    device::{Rsiw, Workqueues},
    rnic::Rnic,
};
use kernel::{prelude::*, str::CStr, sync::Arc};
use net::Keyring;
use rdma::{DeviceConfig, Devices, Kind, LinkOps, LinkSlot, NetDevice, Protocol};

/// The state that outlives a single device.
pub(crate) struct Links {
    pub(crate) devices: Devices<Rsiw>,
    workqueues: Arc<Workqueues>,
    keys: Arc<Keyring>,
    module: &'static ThisModule,
}

impl Links {
    /// Makes the state, without a device. Context: sleeping. Errors: `ENOMEM`.
    pub(crate) fn new(
        module: &'static ThisModule,
        workqueues: Arc<Workqueues>,
        keys: Arc<Keyring>,
    ) -> Result<Arc<Self>> {
        let links = Self {
            devices: Devices::new()?,
            workqueues,
            keys,
            module,
        };
        Ok(Arc::new(links, GFP_KERNEL)?)
    }

    /// Makes an RDMA device of `protocol` on top of `ndev`. Context: sleeping.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a network device other than Ethernet, loopback or one without link layer, and
    /// for a bad name; with [`Protocol::Roce`] also for a VLAN: the RDMA core adds the addresses of
    /// a VLAN to the device below it, and to no other. `EEXIST` if it has such a device of this
    /// driver, `ENFILE` if the name is taken, `ENODEV` if the network device goes away or moves to
    /// another namespace meanwhile.
    fn add(&self, name: &CStr, ndev: &NetDevice, protocol: Protocol) -> Result {
        let known = matches!(ndev.kind(), Kind::Ethernet | Kind::Loopback | Kind::None);
        if !known || protocol == Protocol::Roce && ndev.is_vlan() {
            return Err(EINVAL);
        }
        // Before anything that takes time: RDMA netlink has just found the network device in the
        // namespace of the request, which it does not tell.
        let namespace = ndev.namespace().ok_or(ENODEV)?;
        let (workqueues, keys) = (self.workqueues.clone(), self.keys.clone());
        let dev = Rnic::new(protocol, gid_of(ndev), workqueues, keys)?;
        let config = DeviceConfig {
            name,
            node_guid: dev.guid(),
            node_desc: match protocol {
                Protocol::Iwarp => c"Software RDMA NIC (iWARP)",
                Protocol::Roce => c"Software RDMA NIC (RC over iWARP)",
            },
            ndev,
            namespace,
            comp_vectors: kext::online_cpus(),
            // Ports are those of the host's TCP, so no mapper is needed unless it was asked for.
            no_port_map: !cm::PortMapper::at(ndev, &dev.settings).chooses(),
            name_by_user: true,
        };
        self.devices.register(self.module, &config, dev).map(drop)
    }
}

/// The unique part of the device's GID: the hardware address. If there is none (loopback, tunnels),
/// it is random, with the bits of a locally administered unicast address.
///
/// It is the only GID. The RDMA CM takes the first one of an iWARP device (`cma_validate_port()`),
/// and RNICs have no more. Others, for the addresses of the interface, would have to follow these,
/// and the core refreshes a table by taking out and making anew each entry, the first one too
/// (`config_non_roce_gid_cache()`): who connects at that moment would find no device.
fn gid_of(ndev: &NetDevice) -> [u8; 6] {
    let addr = ndev.hw_addr();
    if let Some(mac) = addr.bytes().first_chunk::<6>() {
        if mac.iter().any(|&b| b != 0) {
            return *mac;
        }
    }
    let r = kext::random_u64().to_ne_bytes();
    [r[0] & !1 | 2, r[1], r[2], r[3], r[4], r[5]]
}

/// The link type `rdma link add NAME type rsiw netdev DEV`.
pub(crate) struct Link(pub(crate) Arc<Links>);

/// The link type `rdma link add NAME type rsiw_rc netdev DEV`.
pub(crate) struct RcLink(pub(crate) Arc<Links>);

static SLOT: LinkSlot<Link> = LinkSlot::new();
static RC_SLOT: LinkSlot<RcLink> = LinkSlot::new();

impl LinkOps for Link {
    const TYPE: &'static CStr = c"rsiw";

    fn slot() -> &'static LinkSlot<Self> {
        &SLOT
    }

    fn newlink(&self, name: &CStr, ndev: &NetDevice) -> Result {
        self.0.add(name, ndev, Protocol::Iwarp)
    }
}

impl LinkOps for RcLink {
    const TYPE: &'static CStr = c"rsiw_rc";

    fn slot() -> &'static LinkSlot<Self> {
        &RC_SLOT
    }

    fn newlink(&self, name: &CStr, ndev: &NetDevice) -> Result {
        self.0.add(name, ndev, Protocol::Roce)
    }
}
