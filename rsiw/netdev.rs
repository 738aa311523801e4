// SPDX-License-Identifier: GPL-2.0

//! What becomes of a device when its network device changes, goes away, or moves to another
//! network namespace. In the last two cases the device goes, too: `rdma::device` unregisters it,
//! and [`cm`] ends its connections.

use crate::{cm, link::Links};
use kernel::sync::Arc;
use rdma::{NetDevice, NetdevEvent, NetdevNotifier, Protocol};

/// Handles the events of network devices. Called under RTNL, so it only looks and queues work.
pub(crate) struct Notifier(pub(crate) Arc<Links>);

impl NetdevNotifier for Notifier {
    fn event(&self, event: NetdevEvent, ndev: &NetDevice) {
        for protocol in Protocol::ALL {
            self.tell(protocol, event, ndev);
        }
    }
}

impl Notifier {
    /// Handles an event of `ndev` for the device of `protocol` there, if there is one.
    fn tell(&self, protocol: Protocol, event: NetdevEvent, ndev: &NetDevice) {
        let Some(handle) = self.0.devices.by_netdev(ndev, protocol) else {
            return;
        };
        match event {
            NetdevEvent::Unregister => {
                // The connections that are being set up end at once: nobody is to wait for them.
                if let Some(dev) = handle.try_get() {
                    cm::leave(&dev.data().conns);
                }
                self.0.devices.netdev_leaves(ndev, protocol);
            }
            NetdevEvent::Up | NetdevEvent::Down | NetdevEvent::Change => {
                handle.port_state_changed(ndev);
            }
            NetdevEvent::ChangeAddr => handle.port_event(rdma::PortEvent::LidChange),
            NetdevEvent::ChangeName => handle.set_netdev_name(ndev),
            _ => {}
        }
    }
}
